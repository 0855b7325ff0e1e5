package sqlstore_test

import (
	"testing"
	"testing/fstest"

	"github.com/nexjob/nexjob/internal/sqlstore"
)

func TestReadMigrations(t *testing.T) {
	good := &fstest.MapFile{Data: []byte("-- min-code: 1\nSELECT 1")}
	all, err := sqlstore.ReadMigrations(fstest.MapFS{"migrations/0001_start.sql": good, "migrations/0002_more.sql": good})
	if err != nil || len(all) != 2 || all[0].Name != "start" || all[1].Version != 2 || all[1].MinCode != 1 {
		t.Fatalf("the migrations: %v, %+v", err, all)
	}
	for name, files := range map[string]fstest.MapFS{
		"no min-code":   {"migrations/0001_start.sql": {Data: []byte("SELECT 1")}},
		"a gap":         {"migrations/0001_start.sql": good, "migrations/0003_more.sql": good},
		"an odd name":   {"migrations/1_start.sql": good},
		"needs a later": {"migrations/0001_start.sql": {Data: []byte("-- min-code: 2\nSELECT 1")}},
	} {
		if _, err := sqlstore.ReadMigrations(files); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
