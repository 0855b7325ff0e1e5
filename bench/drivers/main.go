package main

import (
	_ "github.com/ncruces/go-sqlite3/driver"
	_ "zombiezen.com/go/sqlite"
)

func main() {}
