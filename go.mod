module github.com/nexjob/nexjob

go 1.26
