package main

// What the scenario shares with its sisters: the report lines and the talk with `cargo xtask e2e`.
// The contract is in ../README.md.

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"time"
)

var firstLevel = os.Getenv("HELENUS_E2E_LEVEL") == "first"

func say(format string, values ...any) {
	fmt.Printf(format+"\n", values...)
}

// check runs one check and reports it; the scenario ends at the first failure.
func check(name string, run func() error) {
	if err := run(); err != nil {
		say("FAILED %s", name)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	say("ok %s", name)
}

// checkBeyondFirst is a check of a type that the first level of the server does not have yet.
func checkBeyondFirst(name string, run func() error) {
	if firstLevel {
		say("skip %s: not in the first level", name)
		return
	}
	check(name, run)
}

func equal(got, wanted any) error {
	if !reflect.DeepEqual(got, wanted) {
		return fmt.Errorf("got    %v (%T)\nwanted %v (%T)", got, got, wanted, wanted)
	}
	return nil
}

// eventually waits until the condition holds; errors on the way count as not yet.
func eventually(what string, condition func() error) error {
	var last error
	for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if last = condition(); last == nil {
			return nil
		}
	}
	return fmt.Errorf("not within 90 s: %s (last error: %w)", what, last)
}

// What the harness answers.
var answers = bufio.NewReader(os.Stdin)

// askHarness asks for something to be done with the server; false when the server is not its own.
func askHarness(what string) (bool, error) {
	say("%s PLEASE", what)
	answer, err := answers.ReadString('\n')
	if err != nil {
		return false, err
	}
	switch answer {
	case "DONE\n":
		return true, nil
	case "SKIP\n":
		return false, nil
	}
	return false, fmt.Errorf("unexpected answer of the harness: %q", answer)
}
