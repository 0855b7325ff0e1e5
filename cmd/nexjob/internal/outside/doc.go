// Package outside is the world outside the demo's database: services as others run
// them, over real connections, each with a record of what it really did. The record
// is what the demo's audit believes, so a service decides by its own rules alone.
//
// It stands on the standard library and must not know jobs, storages or the demo;
// who calls is an opaque text that it hands to the Gate. Start reading at Provider.
package outside
