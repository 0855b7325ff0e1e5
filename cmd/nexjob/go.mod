module github.com/nexjob/nexjob/cmd/nexjob

go 1.26

replace github.com/nexjob/nexjob => ../..

require (
	github.com/google/go-cmp v0.7.0
	github.com/nexjob/nexjob v0.0.0-00010101000000-000000000000
	github.com/spf13/cobra v1.10.2
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
)
