package ground

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis gives one server of Redis, emptied for each side. It is started when it is first
// asked for.
type Redis struct {
	dir    string
	client *redis.Client // nil: not started
	close  func() error
}

var _ Ground = (*Redis)(nil)

// NewRedis starts nothing yet.
func NewRedis(dir string) *Redis { return &Redis{dir: dir} }

// Fresh empties the server.
func (g *Redis) Fresh(ctx context.Context) (at string, remove func() error, err error) {
	if g.client == nil {
		if at, g.close, err = startRedis(ctx, g.dir); err != nil {
			return "", nil, err
		}
		g.client = redis.NewClient(&redis.Options{Addr: at})
	}
	kept := context.WithoutCancel(ctx)
	remove = func() error { return g.client.FlushAll(kept).Err() }
	return g.client.Options().Addr, remove, remove()
}

var usedCPU = regexp.MustCompile(`(?m)^used_cpu_(?:sys|user):([0-9.]+)`)

// CPU is what the server says.
func (g *Redis) CPU() (time.Duration, error) {
	if g.client == nil {
		return 0, nil
	}
	info, err := g.client.Info(context.Background(), "cpu").Result()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	found := usedCPU.FindAllStringSubmatch(info, -1)
	for _, m := range found {
		seconds, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, err
		}
		sum += seconds
	}
	if len(found) != 2 {
		return 0, fmt.Errorf("redis tells its CPU in another form: %q", info)
	}
	return time.Duration(sum * float64(time.Second)), nil
}

// Close ends the server.
func (g *Redis) Close() error {
	if g.client == nil {
		return nil
	}
	return errors.Join(g.client.Close(), g.close())
}
