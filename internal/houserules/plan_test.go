package houserules

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// house is the import path of the root package; every package of every module
// lies below it.
const house = "github.com/nexjob/nexjob"

// floors is the floor plan, ground first. A package imports only lower floors,
// and neighbours on one floor do not know each other.
//
// Each path is a room: a folder and all folders below it, unless a longer path
// claims them. "." is the root package alone, and a last "*" makes every folder
// there a room of its own. Packages of one room may import each other.
var floors = [][]string{
	{".", "cron", "dberr"},
	{"internal/rules"},
	{"internal/onewriter", "worker", "inbox", "internal/sqlstore", "internal/crash"},
	{"memory"},
	{"sqlite", "postgres", "storagetest", "observe", "idempotencyhttp"},
	{"nexjobtest", "trigger/*"},
	{"cmd/nexjob/api"},
	{"cmd/nexjob/dashboard"},
	{"cmd/nexjob", "cmd/nexjobvet", "bench", "examples", "tools"},
}

// testOnly are the rooms that only tests may import, and the few others named here.
// They have no floor: like the tests they serve, they may look at any package.
var testOnly = map[string][]string{
	"docs/guide":          {},
	"internal/houserules": {},
	"internal/testenv":    {"bench", "cmd/nexjob/internal/demo"}, // they measure and show on servers of their own
}

// reach narrows what a room may import of the house, where its floor alone would
// let it reach further, or opens the one door between neighbours.
var reach = map[string][]string{
	".":              {"cron"},                // the client reads schedules
	"internal/rules": {"."},                   // decisions are taken on the words alone
	"worker":         {".", "internal/rules"}, // a worker meets its engine in the user's main
}

// strangers must not be imported by the rooms named, whatever their floors: an
// engine that knew the worker could lean on how it behaves.
var strangers = map[string][]string{
	"worker": {"memory", "sqlite", "postgres"},
}

// outside narrows the other modules that a room may import. Every user of the
// library loads the ground, so it stays nearly bare.
var outside = map[string][]string{
	".":                  {"github.com/google/uuid"},
	"cron":               {},
	"internal/rules":     {},
	"internal/onewriter": {},
	"memory":             {},
}

// listed is one package as go list sees it.
type listed struct {
	ImportPath, Name, Dir string
	Imports               []string
	IgnoredGoFiles        []string // files for other platforms and build tags
}

// TestFloorPlan holds the plan against every package of every module.
func TestFloorPlan(t *testing.T) {
	var all []listed
	for _, module := range modules(t) {
		pkgs := goList(t, module)
		for i := range pkgs {
			pkgs[i].Imports = append(pkgs[i].Imports, ignoredImports(t, pkgs[i])...)
		}
		all = append(all, pkgs...)
	}
	if !slices.ContainsFunc(all, func(p listed) bool { return p.ImportPath == house+"/cmd/nexjob" }) {
		t.Error("go list did not see cmd/nexjob: the plan was held against nothing")
	}
	for _, broken := range judge(all) {
		t.Error(broken)
	}
}

// TestFloorPlanIsHeld gives the judge packages that break the plan, one way each.
func TestFloorPlanIsHeld(t *testing.T) {
	tests := []struct {
		name, from, to string
		want           string // a part of the verdict; "" means allowed
	}{
		{"downward", "worker", ".", ""},
		{"downward over several floors", "cmd/nexjob", "cron", ""},
		{"the door on the ground floor", ".", "cron", ""},
		{"within a room", "sqlite", "sqlite/internal/sheet", ""},
		{"the ground's allowed module", ".", "github.com/google/uuid", ""},
		{"standard library", "cron", "time", ""},
		{"a trigger on the worker", "trigger/kafka", "worker", ""},
		{"command on its API", "cmd/nexjob", "cmd/nexjob/api", ""},
		{"dashboard on the API", "cmd/nexjob/dashboard", "cmd/nexjob/api", ""},
		{"test helper on anything", "internal/testenv", "sqlite", ""},
		{"benchmarks on servers of their own", "bench", "internal/testenv", ""},
		{"below the benchmarks", "bench/drivers/pgx", "internal/testenv", ""},
		{"the demo on servers of its own", "cmd/nexjob/internal/demo", "internal/testenv", ""},

		{"upward", "internal/rules", "memory", "internal/rules (floor 1) may import of the house only: ."},
		{"upward without a narrowing", "memory", "sqlite", "memory (floor 3) imports sqlite (floor 4)"},
		{"neighbours", "sqlite", "postgres", "sqlite (floor 4) imports postgres (floor 4)"},
		{"neighbours of one pattern", "trigger/nats", "trigger/kafka", "trigger/nats (floor 5) imports trigger/kafka"},
		{"the door is no way back", "cron", ".", "cron (floor 0) imports . (floor 0)"},
		{"API on the dashboard", "cmd/nexjob/api", "cmd/nexjob/dashboard", "imports cmd/nexjob/dashboard (floor 7)"},
		{"the roof is imported by nobody", "nexjobtest", "cmd/nexjob", "imports cmd/nexjob (floor 8)"},
		{"roofs are neighbours too", "bench", "examples/shop", "bench (floor 8) imports examples/shop"},
		{"worker narrowed", "worker", "dberr", "worker (floor 2) may import of the house only: ., internal/rules"},
		{"engine on the worker", "memory", "worker", "memory must not know worker"},
		{"foreign module on the ground", ".", "github.com/jackc/pgx/v5", ". may import no such module"},
		{"longer name, other module", ".", "github.com/google/uuidx", ". may import no such module"},
		{"product code on a test helper", "sqlite", "internal/testenv", "internal/testenv, which only tests may import"},
		{"the command beside its demo", "cmd/nexjob", "internal/testenv", "internal/testenv, which only tests may import"},
		{"longer name beside the demo", "cmd/nexjob/internal/demos", "internal/testenv", "which only tests may import"},
		{"benchmarks on another test helper", "bench", "internal/houserules", "internal/houserules, which only tests may import"},
		{"no floor", "util", "time", "util has no floor"},
		{"no floor below a pattern", "trigger", "time", "trigger has no floor"},
		{"import without a floor", "worker", "util", "util has no floor"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to := tt.to
			if to != "time" && !strings.HasPrefix(to, "github.com/") {
				to = path.Join(house, to)
			}
			pkg := listed{ImportPath: path.Join(house, tt.from), Name: "p", Imports: []string{to}}
			got := judge([]listed{pkg})
			if tt.want == "" && len(got) > 0 {
				t.Errorf("refused: %q", got)
			}
			if tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)) {
				t.Errorf("got %q, want one verdict with %q", got, tt.want)
			}
		})
	}
	t.Run("a program below the roof", func(t *testing.T) {
		got := judge([]listed{{ImportPath: house + "/memory/tool", Name: "main"}})
		if len(got) != 1 || !strings.Contains(got[0], "a program below the roof") {
			t.Errorf("got %q", got)
		}
	})
}

// TestContributingShowsThePlan keeps the plan that people read equal to the one
// that is held.
func TestContributingShowsThePlan(t *testing.T) {
	text := readFile(t, filepath.Join(root(t), "CONTRIBUTING.md"))
	if want := drawing(); !strings.Contains(text, want) {
		t.Errorf("CONTRIBUTING.md should hold this drawing of the floor plan:\n%s", want)
	}
}

// judge answers one sentence for everything in pkgs that breaks the plan.
func judge(pkgs []listed) []string {
	var broken []string
	say := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	for _, p := range pkgs {
		from, _ := within(p.ImportPath)
		if _, only := testRoom(from); only {
			continue
		}
		room, floor := roomOf(from)
		if room == "" {
			say("%s has no floor: give it one in floors (internal/houserules/plan_test.go) as low as its imports allow, "+
				"and in CONTRIBUTING.md; a helper of tests belongs in testOnly. A new floor is a decision: write it down in docs/adr", from)
			continue
		}
		if p.Name == "main" && floor != len(floors)-1 {
			say("%s is a program below the roof: the only ones are %s", from, strings.Join(floors[len(floors)-1], ", "))
		}
		for _, imported := range p.Imports {
			if to, ours := within(imported); ours {
				judgeOwn(say, from, to)
			} else {
				judgeOutside(say, room, from, imported)
			}
		}
	}
	return broken
}

// judgeOwn judges an import of one of our packages by another.
func judgeOwn(say func(string, ...any), from, to string) {
	if importers, only := testRoom(to); only {
		if slices.ContainsFunc(importers, func(room string) bool { return covers(room, from) }) {
			return
		}
		say("%s imports %s, which only tests may import: move what it needs out of there, or into a _test.go file", from, to)
		return
	}
	fromRoom, fromFloor := roomOf(from)
	toRoom, toFloor := roomOf(to)
	if toRoom == "" {
		say("%s imports %s, and %s has no floor: see floors in internal/houserules/plan_test.go", from, to, to)
		return
	}
	if fromRoom == toRoom {
		return
	}
	if slices.Contains(strangers[toRoom], fromRoom) {
		say("%s must not know %s: they meet in the user's main", from, to)
		return
	}
	if allowed, narrowed := reach[fromRoom]; narrowed {
		if !slices.Contains(allowed, toRoom) {
			say("%s (floor %d) may import of the house only: %s; it imports %s",
				from, fromFloor, strings.Join(allowed, ", "), to)
		}
		return
	}
	if toFloor >= fromFloor {
		say("%s (floor %d) imports %s (floor %d): a package imports lower floors only. "+
			"Put what both need on a lower floor, or let the roof bring them together", from, fromFloor, to, toFloor)
	}
}

// judgeOutside judges an import of the standard library or another module.
func judgeOutside(say func(string, ...any), room, from, imported string) {
	allowed, narrowed := outside[room]
	if first, _, _ := strings.Cut(imported, "/"); !narrowed || !strings.Contains(first, ".") {
		return
	}
	if !slices.ContainsFunc(allowed, func(module string) bool { return covers(module, imported) }) {
		say("%s may import no such module: %s. Allowed beside the standard library: [%s]",
			from, imported, strings.Join(allowed, ", "))
	}
}

// within turns an import path into a path of the house; ours tells whether it is
// one.
func within(importPath string) (rel string, ours bool) {
	if importPath == house {
		return ".", true
	}
	return strings.CutPrefix(importPath, house+"/")
}

// testRoom tells whether a path lies in a room that only tests may import, and who else
// may.
func testRoom(rel string) (importers []string, only bool) {
	for room, importers := range testOnly {
		if covers(room, rel) {
			return importers, true
		}
	}
	return nil, false
}

// roomOf finds the room that a path lies in, the longest one if several hold it,
// and its floor. The room is "" if there is none.
func roomOf(rel string) (room string, floor int) {
	for f, rooms := range floors {
		for _, r := range rooms {
			if base, pattern := strings.CutSuffix(r, "/*"); pattern {
				name, below := strings.CutPrefix(rel, base+"/")
				if !below {
					continue
				}
				name, _, _ = strings.Cut(name, "/")
				r = path.Join(base, name)
			}
			if covers(r, rel) && len(r) > len(room) {
				room, floor = r, f
			}
		}
	}
	return room, floor
}

// covers tells whether rel is the folder room or lies below it. Nothing lies
// below ".": the root package is a room by itself.
func covers(room, rel string) bool {
	return rel == room || strings.HasPrefix(rel, room+"/")
}

// drawing is the plan as text, the roof first.
func drawing() string {
	var b strings.Builder
	for f, rooms := range slices.Backward(floors) {
		name := strconv.Itoa(f)
		if f == len(floors)-1 {
			name = "roof"
		}
		fmt.Fprintf(&b, "%5s   %s\n", name, strings.Join(rooms, "   "))
	}
	return strings.Replace(b.String(), "0   .", "0   nexjob (the root package)", 1)
}

// ignoredImports are the imports of the files that go list leaves out on this
// platform; the plan holds on every platform.
func ignoredImports(t *testing.T, p listed) []string {
	t.Helper()
	var imports []string
	for _, name := range p.IgnoredGoFiles {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			imports = append(imports, imported)
		}
	}
	return imports
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
