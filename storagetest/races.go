package storagetest

func raceChecks() []check { return nil }
