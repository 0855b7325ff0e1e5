module github.com/nexjob/nexjob

go 1.26

require (
	github.com/google/go-cmp v0.7.0
	github.com/google/uuid v1.6.0
)

require (
	github.com/anishathalye/porcupine v1.3.1 // indirect
	pgregory.net/rapid v1.3.0 // indirect
)
