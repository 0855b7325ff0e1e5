// Package view writes what the commands answer: tables for people, JSON for programs.
// What is stored came from anywhere, and a terminal obeys what it is sent: so nothing
// leaves here that could move the cursor, colour the screen or reorder the text. It
// knows of times, texts and values only, not of jobs. Start at Printer.
package view
