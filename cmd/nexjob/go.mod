module github.com/nexjob/nexjob/cmd/nexjob

go 1.26

replace github.com/nexjob/nexjob => ../..

require github.com/spf13/cobra v1.10.2

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
)
