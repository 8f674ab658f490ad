package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"modeldock.io/internal/app"
)

// processes are the commands that have settings.
func (c *cli) processes() []*cobra.Command {
	return []*cobra.Command{c.upCommand(), c.controllerCommand(), c.gatewayCommand(), c.agentCommand()}
}

// settingNames are the settings of every process, by its name.
func settingNames() map[string][]string {
	known := map[string][]string{}
	for _, process := range (&cli{}).processes() {
		known[process.Name()] = settingsOf(process)
	}
	return known
}

// settingsOf are the flags that may also stand in a file or in the environment.
func settingsOf(process *cobra.Command) (names []string) {
	process.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != configFlag && f.Name != "help" {
			names = append(names, f.Name)
		}
	})
	return names
}

// serviceLink is the end of a variable that Kubernetes gives to Pods beside a
// Service: modeldock-gateway makes MODELDOCK_GATEWAY_SERVICE_HOST.
var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$`)

// unknownVariables names what looks like a setting of a process and is none:
// whoever wrote it believes that it has an effect.
func unknownVariables(environment []string, known map[string][]string) (errs []error) {
	names := []string{app.GatewayTokenVariable} // a secret, which is no setting
	var beginnings []string
	for process, settings := range known {
		beginnings = append(beginnings, variableOf(process, ""))
		for _, setting := range settings {
			names = append(names, variableOf(process, setting))
		}
	}
	slices.Sort(environment)
	for _, each := range environment {
		name, _, _ := strings.Cut(each, "=")
		ours := slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(name, b) })
		if ours && !slices.Contains(names, name) && !serviceLink.MatchString(name) {
			errs = append(errs, fmt.Errorf("%s is set, and no process has such a setting%s: see modeldock config print", name, meant(name, append(names, configVariable))))
		}
	}
	return errs
}

// meant suggests the known name that is nearest to one that is not, if any is near.
func meant(name string, known []string) string {
	nearest, least := "", max(2, len(name)/3)+1
	for _, k := range slices.Sorted(slices.Values(known)) {
		if d := distance(name, k); d < least {
			nearest, least = k, d
		}
	}
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", nearest)
}

// distance is Levenshtein's: how many letters to put, drop or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of the row above, one to the left
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(changed, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}
