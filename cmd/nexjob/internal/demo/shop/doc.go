// Package shop is what a user of nexjob writes: the kinds of jobs of a small shop,
// their handlers, the clients of three outside services, and the tables that the
// handlers write. It is meant to be read.
//
// An order leads to three jobs, each safe to run more than once in its own way:
//
//   - ChargeOrder asks a payment provider that honours idempotency keys: the same key
//     goes out on every attempt. The invoice and the job's success are one commit.
//   - SendWelcome goes through a mail server, which knows no keys. It can be asked for a
//     Message-ID, so whoever does not know whether the mail went out asks first.
//   - DeliverWebhook calls a receiver that honours idempotency keys, and notes in the same
//     commit that the event is delivered.
//
// The package stands on the library's public packages and on the services' message
// types. It does not know that it is part of a demo whose workers are killed: nothing
// here is written for that. Start reading at Shop.Charge.
package shop
