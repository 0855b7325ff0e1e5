package harm

import (
	"context"
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nexjob/nexjob"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/cast"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/demo/shop"
	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
	"github.com/nexjob/nexjob/sqlite"
)

// victims are processes that exist in name only.
type victims struct {
	mu    sync.Mutex
	dead  bool // all of them are dying already
	calls []string
	thaw  func()
}

func (v *victims) say(what string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.calls = append(v.calls, what)
}

func (v *victims) said() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append([]string(nil), v.calls...)
}

func (v *victims) Kill(name string) (int, bool) {
	v.say("kill " + name)
	return 99, !v.dead
}

func (v *victims) Freeze(name string) (int, bool) {
	v.say("freeze " + name)
	return 99, !v.dead
}

func (v *victims) Thaw(name string) {
	v.say("thaw " + name)
	if v.thaw != nil {
		v.thaw()
	}
}

func (v *victims) Spare(name string, spare bool) {
	if !spare {
		v.say("spare no more " + name)
	}
}

func (v *victims) Alive() []string { return []string{"worker-9.1"} }

// bench is a hand on a real storage, with Run running.
type bench struct {
	*Hand
	victims *victims
	store   *sqlite.Store
	client  *nexjob.Client
	hits    chan Blow
}

func newBench(t *testing.T, deeds ...Deed) *bench {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "harm.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := nexjob.NewClient(store, nexjob.ClientOptions{})
	_, err = store.DB().ExecContext(t.Context(),
		`CREATE TABLE invoices (order_id INTEGER, cents INTEGER, charge TEXT, job TEXT, fence INTEGER)`)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{victims: new(victims), store: store, client: client, hits: make(chan Blow, 10)}
	b.Hand = &Hand{
		Victims: b.victims, Ghost: NewGhost(store, client, shop.OnSQLite(store)), Say: t.Logf,
		Hit: func(_ context.Context, blow Blow) { b.hits <- blow },
	}
	b.Plan(deeds)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		_ = store.Close()
	})
	return b
}

// lease returns the lease of a job that is being worked.
func (b *bench) lease(t *testing.T) nexjob.Lease {
	t.Helper()
	kind := nexjob.KindOf[int]("test", nexjob.Defaults{})
	if _, err := b.client.Enqueue(t.Context(), kind.New(1, nexjob.Options{})); err != nil {
		t.Fatal(err)
	}
	return b.claim(t)
}

// claim takes the one job, also from one whose lease is over.
func (b *bench) claim(t *testing.T) nexjob.Lease {
	t.Helper()
	for {
		now, err := b.store.Clock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		claimed, err := b.store.Claim(t.Context(), now, nexjob.ClaimRequest{
			Worker: "test", Queues: []string{nexjob.DefaultQueue}, Kinds: []string{"test"}, N: 1, Lease: 50 * time.Millisecond,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed) == 1 {
			return claimed[0].Job.Lease()
		}
		time.Sleep(time.Millisecond) // until the lease is over
	}
}

func callBy(t *testing.T, worker string, lease nexjob.Lease, service outside.Service, item string) outside.Call {
	t.Helper()
	who, err := json.Marshal(cast.Caller{Worker: worker, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	return outside.Call{Service: service, Item: item, Caller: string(who)}
}

// until asks until the condition holds, or the test has failed.
func until(t *testing.T, what string, holds func() bool) { t.Helper(); waitFor(t, what, holds) }

func TestAKillHappensAtItsMomentAndOnce(t *testing.T) {
	b := newBench(t, Deed{Act: Kill, At: AfterApply, Service: outside.PaymentService, Item: "2"})
	lease := b.lease(t)
	call := callBy(t, "worker-1.1", lease, outside.PaymentService, "2")
	other := callBy(t, "worker-1.1", lease, outside.PaymentService, "1")
	steps := []struct {
		at   Moment
		call outside.Call
		died bool
	}{
		{AfterApply, other, false}, // not planned
		{BeforeSend, call, false},  // not yet
		{BeforeApply, call, false},
		{AfterApply, call, true},
		{AfterApply, call, false}, // the plan is used up
	}
	for i, step := range steps {
		if died := b.Meet(t.Context(), step.at, step.call); died != step.died {
			t.Errorf("step %d: died = %t", i, died)
		}
	}
	if diff := cmp.Diff([]string{"kill worker-1.1"}, b.victims.said()); diff != "" {
		t.Error(diff)
	}
	want := Blow{
		Act: Kill, At: AfterApply, Service: outside.PaymentService, Item: "2", Worker: "worker-1.1", PID: 99, Lease: lease,
	}
	if diff := cmp.Diff([]Blow{want}, b.Blows()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, <-b.hits); diff != "" {
		t.Errorf("what follows was told: %s", diff)
	}
	b.claim(t)
	until(t, "the dead worker's writes", func() bool { return len(b.Ghost.Writes()) == 2 })
	for _, write := range b.Ghost.Writes() {
		if !write.Refused() {
			t.Errorf("the dead worker's %s was answered %v", write.What, write.Err)
		}
	}
	until(t, "the end", func() bool { return !b.Rest() })
}

// TestWhatMissesMoves: a blow that does not hit a process inside its effect does not
// count, and meets the next effect of its kind that comes to the same moment.
func TestWhatMissesMoves(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	lease := nexjob.Lease{Job: nexjob.NewID(), Fence: 7}
	tests := []struct {
		name string
		ctx  context.Context
		dead bool
		call outside.Call
		died bool
	}{
		{"the caller had hung up", ended, false, callBy(t, "w", lease, outside.MailService, "a"), true},
		{"the worker was dying already", t.Context(), true, callBy(t, "w", lease, outside.MailService, "a"), false},
		{"the caller does not say who it is", t.Context(), false, outside.Call{Service: outside.MailService, Item: "a"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Deed{Act: Kill, At: AfterApply, Service: outside.MailService, Item: "a"})
			b.victims.dead = tt.dead
			if died := b.Meet(tt.ctx, AfterApply, tt.call); died != tt.died {
				t.Errorf("died = %t", died)
			}
			if len(b.Blows()) != 0 {
				t.Error("it was counted")
			}
			b.victims.dead = false
			for _, spared := range []outside.Call{
				callBy(t, "w", lease, outside.MailService, "a"), // its job has crashed once already
				callBy(t, "w", lease, outside.WebhookService, "b"),
			} {
				if b.Meet(t.Context(), AfterApply, spared) {
					t.Errorf("%s of %s was hit", spared.Service, spared.Item)
				}
			}
			if !b.Meet(t.Context(), AfterApply, callBy(t, "w", lease, outside.MailService, "b")) {
				t.Error("the next mail was spared")
			}
		})
	}
}

func TestWhatIsNotAimedFallsIntoTheRun(t *testing.T) {
	b := newBench(t, Deed{Act: Kill, At: AnyTime, After: 2}, Deed{Act: Kill, At: AnyTime, After: 100})
	call := callBy(t, "worker-1.1", nexjob.Lease{}, outside.PaymentService, "1")
	b.Meet(t.Context(), AfterApply, call)
	if len(b.victims.said()) != 0 {
		t.Error("it came before its time")
	}
	b.Meet(t.Context(), AfterApply, call)
	until(t, "the kill", func() bool { return len(b.Blows()) == 1 })
	if diff := cmp.Diff(Blow{Act: Kill, Worker: "worker-9.1", PID: 99}, b.Blows()[0]); diff != "" {
		t.Error(diff)
	}
	// What is left when all work is done is done then.
	until(t, "the other", func() bool { return !b.Rest() })
	if len(b.Blows()) != 2 {
		t.Errorf("carried out: %v", b.Blows())
	}
}

// TestAFreezeLastsPastTheLease: it ends once another has the job, and counts once the
// process says that it was refused.
func TestAFreezeLastsPastTheLease(t *testing.T) {
	b := newBench(t, Deed{Act: Freeze, At: BeforeSend, Service: outside.MailService, Item: "a"})
	lease := b.lease(t)
	met := make(chan bool)
	go func() { met <- b.Meet(t.Context(), BeforeSend, callBy(t, "w", lease, outside.MailService, "a")) }()
	<-b.hits
	select {
	case <-met:
		t.Error("the call went on before its lease was over")
	default:
	}
	if next := b.claim(t); next.Fence == lease.Fence {
		t.Fatal("the lease is not over")
	}
	if <-met {
		t.Error("a frozen caller was taken for dead")
	}
	if len(b.Blows()) != 0 || !b.Rest() {
		t.Error("it was counted before the process was refused")
	}
	b.Healthy(cast.Health{Worker: "w", LeasesLost: 1, StaleRefused: 2})
	until(t, "the end", func() bool { return !b.Rest() })
	blows := b.Blows()
	if len(blows) != 1 || blows[0].Refused != 3 || blows[0].Lease != lease {
		t.Errorf("carried out: %+v", blows)
	}
	if n := b.StaleRefused(); n != 2 {
		t.Errorf("the processes say that %d writes were refused, want 2", n)
	}
	if diff := cmp.Diff([]string{"freeze w", "thaw w", "spare no more w"}, b.victims.said()); diff != "" {
		t.Error(diff)
	}
}

// TestOneFreezeAtATime: the next one's effect comes back later, before it is sent.
func TestOneFreezeAtATime(t *testing.T) {
	b := newBench(t,
		Deed{Act: Freeze, At: BeforeSend, Service: outside.MailService, Item: "a"},
		Deed{Act: Freeze, At: AfterApply, Service: outside.MailService, Item: "b"})
	lease := b.lease(t)
	next := callBy(t, "w", lease, outside.MailService, "b")
	if b.Later(next) {
		t.Error("it was turned away though nobody is frozen")
	}
	go b.Meet(t.Context(), BeforeSend, callBy(t, "w", lease, outside.MailService, "a"))
	<-b.hits
	if !b.Later(next) || b.Later(callBy(t, "w", lease, outside.MailService, "c")) {
		t.Error("the one that is to be frozen should come back later, and no other")
	}
	b.claim(t)
	b.Healthy(cast.Health{Worker: "w", LeasesLost: 1})
	until(t, "the end of the freeze", func() bool { return !b.Later(next) })
}

// TestAFreezeNeedsALease: to freeze an attempt that has lost its lease proves nothing.
func TestAFreezeNeedsALease(t *testing.T) {
	b := newBench(t, Deed{Act: Freeze, At: AfterApply, Service: outside.MailService, Item: "a"})
	lease := b.lease(t)
	b.claim(t)
	b.Meet(t.Context(), AfterApply, callBy(t, "w", lease, outside.MailService, "a"))
	until(t, "the end", func() bool { return !b.busyNow() })
	if len(b.Blows()) != 0 {
		t.Error("it was counted")
	}
	lease = b.lease(t)
	go b.Meet(t.Context(), AfterApply, callBy(t, "w", lease, outside.WebhookService, "b")) // any effect will do
	if blow := <-b.hits; blow.Lease != lease {
		t.Errorf("frozen was %+v", blow)
	}
	b.claim(t)
	b.Healthy(cast.Health{Worker: "w", LeasesLost: 1})
	until(t, "the end", func() bool { return len(b.Blows()) == 1 })
}

func (b *bench) busyNow() bool {
	b.Hand.mu.Lock()
	defer b.Hand.mu.Unlock()
	return b.busy > 0
}
