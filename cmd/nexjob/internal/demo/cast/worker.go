package cast

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
	"github.com/nexjob/nexjob/worker"
)

// The hidden commands of the program that are Work and Front.
const (
	WorkCommand  = "demo-worker"
	FrontCommand = "demo-front"
)

// Lease is how long a job of a dead worker waits for the next one: short, so that
// nobody has to look at a demo for the usual 30 seconds.
const Lease = 2 * time.Second

// StopTime is how long a process may take to stop when it is asked to.
const StopTime = 10 * time.Second

// WorkOptions say what a worker process serves.
type WorkOptions struct {
	Store      string // as StoreEnv tells it
	Demo       string // URL of the demo, with the payment provider, the mailbox and the receiver
	SMTP       string // address of the mail server
	Name       string // of this process
	Slots      int
	CrashLimit int
}

// Work is the life of one worker process: it works the shop's jobs until stdin or ctx
// ends. The process that started it holds the other end of stdin, so a worker does not
// outlive it.
func Work(ctx context.Context, o WorkOptions, stdin io.Reader, log io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with the process: a read of stdin cannot be interrupted
		defer stop()
		_, _ = io.Copy(io.Discard, stdin)
	}()
	at, err := openPatiently(ctx, o.Store)
	if err != nil {
		return err
	}
	defer at.Close(ctx)

	p := &props{demo: o.Demo, name: o.Name, http: &http.Client{}}
	watched := &http.Client{Transport: p}
	s := &shop.Shop{
		Jobs: at.Client, Books: watchedBooks{at.Books, p},
		Cash:  &shop.Cashier{URL: o.Demo, HTTP: watched},
		Post:  &shop.Postbox{Submit: p.submit(shop.SMTP(o.SMTP)), URL: o.Demo, HTTP: watched},
		Hooks: &shop.Courier{URL: o.Demo, HTTP: watched},
	}
	w := worker.New(at.Store, worker.Options{
		Name:            o.Name,
		Slots:           o.Slots,
		Lease:           Lease,
		Poll:            100 * time.Millisecond, // jobs come from other processes
		ShutdownTimeout: StopTime / 2,
		CrashLimit:      o.CrashLimit,
		LookupBackoff:   nexjob.Retry{Initial: 200 * time.Millisecond, Max: time.Second},
		LookupLimit:     100,
		Logger:          slog.New(slog.NewTextHandler(log, nil)),
	})
	worker.Handle(w, shop.ChargeOrder, onStage(p, outside.PaymentService,
		func(o shop.Order) string { return strconv.FormatInt(o.ID, 10) }, s.Charge))
	worker.Handle(w, shop.SendWelcome, onStage(p, outside.MailService,
		func(m shop.Welcome) string { return m.Customer }, s.Welcome))
	worker.Handle(w, shop.DeliverWebhook, onStage(p, outside.WebhookService,
		func(e shop.Event) string { return e.Name }, s.Webhook))

	var reporting sync.WaitGroup
	defer reporting.Wait()
	defer stop()
	reporting.Go(func() { p.report(ctx, w) })
	return w.Run(ctx)
}
