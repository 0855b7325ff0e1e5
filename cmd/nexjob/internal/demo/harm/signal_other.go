//go:build !unix

package harm

import (
	"errors"
	"os"
)

// CanFreeze says whether processes can be stopped and continued here.
const CanFreeze = false

func suspend(*os.Process) error { return errors.ErrUnsupported }

func resume(*os.Process) error { return errors.ErrUnsupported }
