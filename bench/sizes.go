package main

import "time"

// sizes are how much each bench does.
type sizes struct {
	rounds      int           // of every side; the median counts
	warm, timed time.Duration // of rates, in each round
	batch       int           // jobs of one step of many
	held        int           // of duplicate: keys
	ourJobs     int           // of endtoend
	theirJobs   int           // fewer, so that the slowest peer ends; what is waiting costs no peer anything
	finished    int           // of live: jobs that have ended before
	runs, paced int           // of latency: runs, and jobs of each
	pacedInfo   int           // where the runs are shorter: at NORMAL, beside defaults
	primer      int           // of latency: jobs before those that count
	watched     int           // of recorded: jobs of a run
	later       int           // of late: jobs of a round
	horizon     time.Duration // of late: they are due within it
	deep, flat  int           // of flat1m and flat10m: waiting jobs
	claims      int           // of flat1m, flat10m and snapshot: jobs that are timed in each round
	dead        int           // of snapshot: jobs worked before
}

func fullSizes(engine string, rounds int) sizes {
	s := sizes{
		rounds: rounds, warm: 300 * time.Millisecond, timed: 3 * time.Second, batch: 1_000,
		ourJobs: 100_000, theirJobs: 5_000,
		runs: 5, paced: 2_000, pacedInfo: 400, primer: 50,
		deep: 1_000_000, flat: 10_000, claims: 20_000,
	}
	if engine == "postgres" {
		s.ourJobs, s.theirJobs = 200_000, 50_000
		s.held, s.finished = 1_000, 100_000
		s.watched = 150
		s.later, s.horizon = 2_000, 10*time.Second
		s.deep, s.claims, s.dead = 10_000_000, 50_000, 250_000
	}
	return s
}

// quickSizes show that everything runs; their figures mean nothing.
func quickSizes() sizes {
	return sizes{
		rounds: 1, warm: 10 * time.Millisecond, timed: 50 * time.Millisecond, batch: 1_000,
		held: 100, ourJobs: 2_000, theirJobs: 100, finished: 100,
		runs: 1, paced: 10, pacedInfo: 5, primer: 5,
		watched: 3, later: 20, horizon: time.Second / 2,
		deep: 4_000, flat: 2_000, claims: 1_000, dead: 2_000,
	}
}
