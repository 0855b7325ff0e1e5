package guide_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The smallest program, interrupted once its job has run.
func Example_first() {
	program, done := build("first")
	defer done()
	program.run("hello", os.Interrupt)
	// Output:
	// created
	// hello Ann
}

// The shop is killed while it charges, started again, and started once more.
func Example_shop() {
	program, done := build("shop")
	defer done()
	program.run("provider: charged", os.Kill)
	fmt.Println("killed")
	program.run("", nil)
	fmt.Println("again")
	program.run("", nil)
	// Output:
	// order 42 enqueued: created
	// provider: charged 1999 cents; my answer takes five seconds
	// killed
	// order 42 enqueued: existing
	// provider: I know this key, here is the answer of then
	// Succeeded; crashes 1, charges 1, invoices 1
	// again
	// order 42 enqueued: created
	// Succeeded; crashes 0, charges 1, invoices 1
}

// program is one of testdata, built, with a folder to run in.
type program struct {
	path, folder string
}

// build compiles a program of the guide.
func build(name string) (p program, done func()) {
	folder, remove := temporary()
	p = program{path: filepath.Join(folder, name+".exe"), folder: folder}
	out, err := exec.Command("go", "build", "-o", p.path, "./testdata/"+name).CombinedOutput()
	if err != nil {
		fmt.Printf("%v\n%s", err, out)
	}
	return p, remove
}

// run starts the program, repeats what it prints, and sends it the signal once a line
// begins with until.
func (p program) run(until string, signal os.Signal) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path)
	cmd.Dir = p.folder
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Println(lines.Text())
		if signal != nil && strings.HasPrefix(lines.Text(), until) {
			if err := cmd.Process.Signal(signal); err != nil {
				fmt.Println(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil && signal != os.Kill {
		fmt.Println(err)
	}
}
