package sqlstore

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
)

// Migration is one step of the schema. It runs once, whole, and is never edited:
// its checksum is kept in the file.
type Migration struct {
	Version  int64
	Name     string
	Text     string
	Checksum string
	// MinCode is the newest migration that code must know to run on the schema after
	// this one: code that is a version behind goes on working.
	MinCode int64
}

// ReadMigrations returns the steps migrations/NNNN_word.sql in order.
func ReadMigrations(files fs.FS) ([]Migration, error) {
	paths, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	named := regexp.MustCompile(`^migrations/(\d{4})_([a-z0-9_]+)\.sql$`)
	headed := regexp.MustCompile(`^-- min-code: (\d+)\n`)
	var all []Migration
	for i, path := range paths { // Glob sorts
		data, err := fs.ReadFile(files, path)
		if err != nil {
			return nil, err
		}
		name, head := named.FindStringSubmatch(path), headed.FindSubmatch(data)
		if name == nil || head == nil {
			return nil, fmt.Errorf("%s: want NNNN_word.sql that begins with -- min-code: N", path)
		}
		m := Migration{Name: name[2], Text: string(data)}
		sum := sha256.Sum256(data)
		m.Checksum = hex.EncodeToString(sum[:])
		if m.Version, err = strconv.ParseInt(name[1], 10, 64); err != nil {
			return nil, err
		}
		if m.MinCode, err = strconv.ParseInt(string(head[1]), 10, 64); err != nil {
			return nil, err
		}
		if m.Version != int64(i)+1 || m.MinCode < 1 || m.MinCode > m.Version {
			return nil, fmt.Errorf("%s: versions go up by one, and min-code is at most the version", path)
		}
		all = append(all, m)
	}
	return all, nil
}
