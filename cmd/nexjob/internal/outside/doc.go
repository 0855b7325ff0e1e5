// Package outside is the world outside the demo's database: services as others run
// them, over real connections, each with a record of what it really did. The record
// is what the demo's audit believes, so a service decides by its own rules alone: a
// payment Provider and a webhook Receiver that honour idempotency keys, and a
// Mailbox that takes a mail as often as it is sent.
//
// It stands on the standard library and an SMTP server, and must not know jobs,
// storages or the demo; who calls is an opaque text that it hands to the Gate. What
// may befall a call is the same for all three and lies in Conditions. Start reading
// there, then at Provider.
package outside
