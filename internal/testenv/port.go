package testenv

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken below those that systems lend to outgoing connections. So nobody is
// lent a server's port while it is down, not even a client that tries to reach it: on
// the loopback such a client may get to talk to itself.
const (
	firstPort = 15000
	lastPort  = 31999
)

// onFreePort calls start with ports that are free as far as we can see, until one is.
func onFreePort(start func(port int) error) error {
	err := errPortTaken
	for try := 0; try < 50 && errors.Is(err, errPortTaken); try++ {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if isFree(port) {
			err = start(port)
		}
	}
	return err
}

func isFree(port int) bool {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && listener.Close() == nil
}
