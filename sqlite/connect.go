package sqlite

import (
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	driver "modernc.org/sqlite"
	code "modernc.org/sqlite/lib"

	"github.com/nexjob/nexjob"
)

// Version is the version of SQLite that is built in.
const Version = code.SQLITE_VERSION

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

// connect makes the two pools, the user's and the readers', and the lane, which has a
// connection of its own. Nothing is opened yet.
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
	users := maps.Clone(common)
	if options.ForeignKeys {
		users["_pragma"] = append(slices.Clone(common["_pragma"]), "foreign_keys(1)")
	}
	if s.db, err = pool(file, users, s); err != nil {
		return err
	}
	// The page cache keeps SQLite's 2 MB: once a split has moved pages, a commit walks over
	// all that it holds (record 0007).
	common.Add("_pragma", "wal_autocheckpoint(4000)")
	writer, err := driver.NewConnector(file + "?" + common.Encode())
	if err != nil {
		return err
	}
	s.lane = newLane(s, writer, options.BusyTimeout)
	common.Set("_query_only", "1")
	common.Del("_txlock")
	if s.readers, err = pool(file, common, nil); err != nil {
		return err
	}
	most := max(4, runtime.GOMAXPROCS(0))
	s.readers.SetMaxOpenConns(most)
	s.readers.SetMaxIdleConns(most)
	return nil
}

// pool makes a pool of connections; owner is set for those of Store.DB.
func pool(file string, settings url.Values, owner *Store) (*sql.DB, error) {
	connector, err := driver.NewConnector(file + "?" + settings.Encode())
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(owned{connector, owner}), nil
}

// owned are connections that know their store, so that InTx, given a *sql.DB, finds
// the lane to take turns with and the bell to ring.
type owned struct {
	sqldriver.Connector
	store *Store
}

// Driver returns the driver of the connections, which tells whose they are.
func (c owned) Driver() sqldriver.Driver { return ownedDriver{c.Connector.Driver(), c.store} }

type ownedDriver struct {
	sqldriver.Driver
	store *Store
}

// storeOf returns the store whose DB a pool is, nil for the user's own.
func storeOf(db *sql.DB) *Store {
	if d, ok := db.Driver().(ownedDriver); ok {
		return d.store
	}
	return nil
}

// release closes the pools; the lane's connection is closed by its stop.
func (s *Store) release() error {
	return errors.Join(s.readers.Close(), s.db.Close())
}
