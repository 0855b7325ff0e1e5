package postgres

import "testing"

// TestNames: what stands for names is replaced whole, and nothing else is.
func TestNames(t *testing.T) {
	n := names{schema: "jobs", prefix: "shop"}
	for text, want := range map[string]string{
		"":                                     "",
		"nexjob":                               "nexjob",
		"SELECT 1 FROM nexjob.jobs":            `SELECT 1 FROM "jobs"."shop_jobs"`,
		"nexjob.claim_1(now) nexjob_claim_1.n": `"jobs"."shop_claim_1"(now) "shop_claim_1".n`,
		"'nexjob.fences')":                     `'"jobs"."shop_fences"')`,
		"run nexjob migrate, nexjob. or xnexjob_jobs": "run nexjob migrate, nexjob. or xnexjob_jobs",
		"nexjobnexjob.jobs nexjob.keys":               `nexjobnexjob.jobs "jobs"."shop_keys"`,
	} {
		if got := n.in(text); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}
