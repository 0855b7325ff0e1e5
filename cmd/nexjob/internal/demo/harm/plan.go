package harm

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nexjob/nexjob/cmd/nexjob/internal/outside"
)

// Act is what is done to a process.
type Act uint8

// The acts.
const (
	Kill    Act = iota + 1 // SIGKILL
	Freeze                 // SIGSTOP, and SIGCONT once the lease is over
	Restart                // of the database's server, which is killed and started again
)

// MarshalText names the act in the records that are kept.
func (a Act) MarshalText() ([]byte, error) {
	switch a {
	case Freeze:
		return []byte("freeze"), nil
	case Restart:
		return []byte("restart"), nil
	case Kill:
	}
	return []byte("kill"), nil
}

// Moment is a point in the life of an effect.
type Moment uint8

// The moments. Before the record is kept looks from outside like AfterApply, for the
// worker writes nothing between the answer and its record: it waits for the answer, and
// dies without it.
const (
	AnyTime     Moment = iota // wherever the worker is
	BeforeSend                // the effect is recorded as intended, and nothing was sent
	BeforeApply               // the service has the request and has done nothing
	AfterApply                // it is done, and nobody at the shop knows
)

// String says the moment as progress lines do.
func (m Moment) String() string {
	switch m {
	case BeforeSend:
		return "before it was sent"
	case BeforeApply:
		return "after it was sent, before it was applied"
	case AfterApply:
		return "after it was applied, before it was recorded"
	case AnyTime:
	}
	return "wherever it was"
}

// MarshalText names the moment in the records that are kept.
func (m Moment) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Deed is one kill or freeze that is planned.
type Deed struct {
	Act     Act
	At      Moment
	Service outside.Service // inside whose effect; "" with AnyTime
	Item    string          // of which order, customer or event; it moves if that is missed
	After   int             // AnyTime: once so many effects were applied,
	Pause   time.Duration   // and then a moment later
}

// Services returns the services that effects reach, in the order in which kills are
// dealt out.
func Services() []outside.Service {
	return []outside.Service{outside.PaymentService, outside.MailService, outside.WebhookService}
}

// Effects are the items of each service, one effect each.
type Effects map[outside.Service][]string

// count returns how many effects there are.
func (e Effects) count() int {
	n := 0
	for _, items := range e {
		n += len(items)
	}
	return n
}

// Check refuses a plan that cannot be carried out: each kill and each freeze needs an
// effect of its own.
func (e Effects) Check(kills, freezes int) error {
	if n := e.count(); kills > n || freezes > n-kills { // their sum could overflow
		return fmt.Errorf("%d kills and %d freezes, and the orders lead to %d effects: at most one for each effect",
			kills, freezes, n)
	}
	return nil
}

// Draw plans kills and freezes, each inside an effect of its own. The first three kills
// are one inside each kind of effect, after it was applied, where a repeat would be the
// harm. The rest are drawn in kind and moment, and a quarter of the kills are not aimed
// at all.
func Draw(effects Effects, kills, freezes int, random *rand.Rand) []Deed {
	left := make(Effects)
	for _, service := range Services() {
		items := append([]string(nil), effects[service]...)
		random.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
		left[service] = items
	}
	// take draws an item of the service, or of the next one that has any left.
	take := func(first int) (service outside.Service, item string, ok bool) {
		services := Services()
		for i := range services {
			service = services[(first+i)%len(services)]
			if items := left[service]; len(items) > 0 {
				left[service] = items[1:]
				return service, items[0], true
			}
		}
		return "", "", false
	}
	aimed := func(act Act, at Moment, first int) Deed {
		service, item, ok := take(first)
		if !ok {
			return Deed{Act: act, At: AnyTime}
		}
		return Deed{Act: act, At: at, Service: service, Item: item}
	}
	deeds := make([]Deed, 0, kills+freezes)
	for i := range min(kills, len(left)) {
		deeds = append(deeds, aimed(Kill, AfterApply, i))
	}
	for range freezes {
		at := []Moment{BeforeSend, AfterApply}[random.IntN(2)]
		deeds = append(deeds, aimed(Freeze, at, random.IntN(len(left))))
	}
	for len(deeds) < kills+freezes {
		kind, at := random.IntN(len(left)+1), []Moment{BeforeSend, BeforeApply, AfterApply}[random.IntN(3)]
		deed := Deed{Act: Kill, At: AnyTime}
		if kind < len(left) {
			deed = aimed(Kill, at, kind)
		}
		// What is not aimed is timed by what was done, so that it falls into the run
		// whatever the speed of the machine.
		deed.After = 1 + random.IntN(max(1, effects.count()*6/10))
		deed.Pause = time.Duration(random.Int64N(int64(20 * time.Millisecond)))
		deeds = append(deeds, deed)
	}
	return deeds
}

// DrawRestarts plans restarts of the server, each after some of the effects.
func DrawRestarts(effects Effects, n int, random *rand.Rand) []Deed {
	deeds := make([]Deed, n)
	for i := range deeds {
		deeds[i] = Deed{Act: Restart, At: AnyTime, After: 1 + random.IntN(max(1, effects.count()*8/10))}
	}
	return deeds
}
