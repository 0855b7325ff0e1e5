package postgres_test

// roles are what another process can do with tables.
func roles() map[string]func(url, schema string) error {
	return map[string]func(url, schema string) error{}
}
