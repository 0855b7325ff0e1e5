package queues

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// tasks is asynq on Redis. The ID of a task is made from the order's number, as an
// idempotency key would be. Ended tasks are deleted, which is its default.
type tasks struct {
	options asynq.RedisClientOpt
	client  *asynq.Client
	redis   *redis.Client // counts
}

// OpenAsynq opens asynq on a server of Redis that holds nothing.
func OpenAsynq(_ context.Context, at Place) (Queue, error) {
	options := asynq.RedisClientOpt{Addr: at.At}
	return &tasks{
		options: options,
		client:  asynq.NewClient(options),
		redis:   redis.NewClient(&redis.Options{Addr: at.At}),
	}, nil
}

// Add enqueues one task.
func (q *tasks) Add(ctx context.Context, o Order) error {
	payload, err := json.Marshal(o)
	if err != nil {
		return err
	}
	task := asynq.NewTask("charge", payload)
	_, err = q.client.EnqueueContext(ctx, task, asynq.TaskID("payment-"+strconv.FormatInt(o.Number, 10)))
	return err
}

// AddMany enqueues one by one: asynq knows no batches.
func (q *tasks) AddMany(ctx context.Context, list []Order) error {
	for _, o := range list {
		if err := q.Add(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// Work starts a server that sleeps for 1 ms when nothing waits, where its default is a
// second: with that, a job that finds it idle waits for half a second.
func (q *tasks) Work(_ context.Context, slots int, handle Handler) (func() error, error) {
	server := asynq.NewServer(q.options, asynq.Config{
		Concurrency:       slots,
		TaskCheckInterval: time.Millisecond,
		LogLevel:          asynq.FatalLevel,
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc("charge", func(_ context.Context, task *asynq.Task) error {
		var o Order
		if err := json.Unmarshal(task.Payload(), &o); err != nil {
			return err
		}
		handle(o, nil)
		return nil
	})
	if err := server.Start(mux); err != nil {
		return nil, err
	}
	return func() error {
		server.Shutdown()
		return nil
	}, nil
}

// Left counts the tasks that wait or are active.
func (q *tasks) Left(ctx context.Context) (int, error) {
	left := int64(0)
	for _, list := range []string{"pending", "active"} {
		n, err := q.redis.LLen(ctx, "asynq:{default}:"+list).Result()
		if err != nil {
			return 0, err
		}
		left += n
	}
	return int(left), nil
}

// Close closes the connections.
func (q *tasks) Close() error { return errors.Join(q.client.Close(), q.redis.Close()) }
