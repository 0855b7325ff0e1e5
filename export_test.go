package nexjob

// MaxTallies is how many keys a client remembers decisions of.
const MaxTallies = maxTallies

// DecisionKind is the kind of the entries about a key's decisions.
func DecisionKind(key string) string { return decisionKind(key) }
