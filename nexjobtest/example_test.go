package nexjobtest_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/nexjobtest"
	"github.com/nexjob/nexjob/worker"
)

type Welcome struct {
	Address string `json:"address"`
}

var WelcomeMail = nexjob.KindOf[Welcome]("welcome-mail", nexjob.Defaults{})

// welcome is the handler under test.
func welcome(ctx context.Context, run *worker.Run, w Welcome) error {
	_, err := worker.Effect[worker.None]{
		Name:       "mail",
		AtMostOnce: true,
		Send: worker.NoResult(func(context.Context, string) error {
			return nil // the mail service's call
		}),
	}.Do(ctx, run)
	return err
}

func ExampleRun() {
	test := func(t testing.TB) { // in a test of your own, t is the test's
		result := nexjobtest.Run(t, WelcomeMail, welcome, Welcome{Address: "ann@example.com"})
		fmt.Println(result.Err, result.State, result.Receipts[0].Name, result.Receipts[0].State)
	}
	testing.Benchmark(func(b *testing.B) { // an example is given no t, but this is one
		if b.N == 1 {
			test(b)
		}
	})
	// Output: <nil> Succeeded mail confirmed
}
