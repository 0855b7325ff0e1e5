package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/sqlite"
	"github.com/nexjob/nexjob/worker"
)

type Greeting struct {
	Name string `json:"name"`
}

// A kind names the jobs in the file; renaming the Go type or variable changes nothing.
var Greet = nexjob.KindOf[Greeting]("greet", nexjob.Defaults{})

func greet(ctx context.Context, run *worker.Run, g Greeting) error {
	fmt.Println("hello", g.Name)
	return nil // the job has Succeeded
}

func work(ctx context.Context) error {
	store, err := sqlite.Open(ctx, "app.db", sqlite.Options{}) // makes the file and its tables
	if err != nil {
		return err
	}
	defer store.Close()

	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	defer client.Close(context.Background())
	answer, err := client.Enqueue(ctx, Greet.New(Greeting{Name: "Ann"}, nexjob.Options{
		IdempotencyKey: "greet-ann",
	}))
	if err != nil {
		return err
	}
	fmt.Println(answer.Outcome)

	w := worker.New(store, worker.Options{})
	worker.Handle(w, Greet, greet)
	return w.Run(ctx) // works until ctx ends, then lets running handlers finish
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := work(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
