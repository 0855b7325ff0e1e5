package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	driver "modernc.org/sqlite"

	"github.com/nexjob/nexjob"
)

// fill checks the options and puts in the defaults.
func (o *Options) fill() error {
	refuse := func(field string, value any, remedy string) error {
		return &nexjob.InvalidError{Field: "option " + field, Why: fmt.Sprint(value), Remedy: remedy}
	}
	switch {
	case o.Synchronous > Normal:
		return refuse("Synchronous", o.Synchronous, "use Full or Normal")
	case o.BusyTimeout < 0 || o.BusyTimeout > time.Hour:
		return refuse("BusyTimeout", o.BusyTimeout, "0 to an hour")
	case o.TxLimit < 0 || o.TxLimit > time.Hour:
		return refuse("TxLimit", o.TxLimit, "0 to an hour")
	}
	if o.BusyTimeout == 0 {
		o.BusyTimeout = 5 * time.Second
	}
	if o.TxLimit == 0 {
		o.TxLimit = DefaultTxLimit
	}
	return nil
}

// location turns a path into the form that carries settings.
func location(path string) (string, error) {
	switch {
	case path == "" || strings.Contains(path, ":memory:"):
		return "", fmt.Errorf("path %q is a database in memory, which each connection would have for itself; "+
			"use package memory, or a file in a temporary folder", path)
	case strings.HasPrefix(path, "file:"):
		return "", fmt.Errorf("path %q is a URI; give the plain name of the file", path)
	}
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	whole = filepath.ToSlash(whole)
	if !strings.HasPrefix(whole, "/") { // a drive's letter
		whole = "/" + whole
	}
	return "file:" + (&url.URL{Path: whole}).EscapedPath(), nil
}

// connect makes the three pools: the user's, the readers', and the lane's single
// connection. Nothing is opened yet.
func (s *Store) connect(path string, options Options) error {
	file, err := location(path)
	if err != nil {
		return err
	}
	common := url.Values{
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", options.BusyTimeout.Milliseconds()),
			fmt.Sprintf("synchronous(%s)", map[Synchronous]string{Full: "full", Normal: "normal"}[options.Synchronous]),
			"temp_store(memory)",
			"journal_size_limit(67108864)",
		},
		"_txlock": {"immediate"},
	}
	if s.db, err = pool(file, common); err != nil {
		return err
	}
	common.Add("_pragma", "cache_size(-16384)")
	common.Add("_pragma", "wal_autocheckpoint(4000)")
	writer, err := pool(file, common)
	if err != nil {
		return err
	}
	writer.SetMaxOpenConns(1)
	s.lane = newLane(s, writer)
	common.Set("_query_only", "1")
	common.Del("_txlock")
	if s.readers, err = pool(file, common); err != nil {
		return err
	}
	most := max(4, runtime.GOMAXPROCS(0))
	s.readers.SetMaxOpenConns(most)
	s.readers.SetMaxIdleConns(most)
	return nil
}

func pool(file string, settings url.Values) (*sql.DB, error) {
	connector, err := driver.NewConnector(file + "?" + settings.Encode())
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// release closes all connections.
func (s *Store) release() error {
	return errors.Join(s.lane.pool.Close(), s.readers.Close(), s.db.Close())
}
