package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"modeldock.io/internal/app"
)

// configVariable names the environment variable with the file of --config.
const configVariable = "MODELDOCK_CONFIG"

// configFlag is the one setting that is in no file.
const configFlag = "config"

// configured lets a process take its flags from a file and from the
// environment, too; a flag on the command line wins, then the environment.
// check judges the settings together. Whatever is wrong is told at once, before
// the process does anything, by `config print` as by a start.
func configured(cmd *cobra.Command, check func() error) *cobra.Command {
	cmd.Flags().String(configFlag, "", "YAML file with flags under the name of the process, such as "+cmd.Name()+": {listen: …} (default: "+configVariable+")")
	cmd.Long += "\n\nEvery flag can also stand in the file of --config, or in the environment as " + variableOf(cmd.Name(), "FLAG") + "."
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if err := errors.Join(applyConfig(cmd), check()); err != nil {
			return &exitError{exitUsage, err}
		}
		return nil
	}
	return cmd
}

func variableOf(process, setting string) string {
	return "MODELDOCK_" + strings.ToUpper(process+"_"+strings.ReplaceAll(setting, "-", "_"))
}

// applyConfig sets what the command line left out. It names every error at once.
func applyConfig(cmd *cobra.Command) error {
	onLine := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { onLine[f.Name] = true })
	name, _ := cmd.Flags().GetString(configFlag)
	if name == "" {
		name = os.Getenv(configVariable)
	}
	known := settingNames()
	section, errs := readConfig(cmd.Name(), name, known)
	for _, key := range slices.Sorted(maps.Keys(section)) {
		if !slices.Contains(known[cmd.Name()], key) {
			continue // told already
		}
		text, err := flagText(section[key])
		if err == nil && !onLine[key] {
			err = cmd.Flags().Set(key, text)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s.%s: %w", name, cmd.Name(), key, err))
		}
	}
	for _, setting := range known[cmd.Name()] {
		variable := variableOf(cmd.Name(), setting)
		text, set := os.LookupEnv(variable)
		if !set || onLine[setting] {
			continue
		}
		if err := cmd.Flags().Set(setting, text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", variable, err))
		}
	}
	return errors.Join(append(errs, unknownVariables(os.Environ(), known)...)...)
}

// readConfig returns what the file says to one process. The names of what it
// says to the others are judged too, since one file serves all; their values
// are judged where they are used.
func readConfig(process, name string, known map[string][]string) (map[string]any, []error) {
	if name == "" {
		return nil, nil
	}
	processes := slices.Sorted(maps.Keys(known))
	text, err := os.ReadFile(name) //nolint:gosec // whoever starts the process names its file
	if err != nil {
		return nil, []error{fmt.Errorf("read --%s: %w", configFlag, err)}
	}
	var all map[string]map[string]any
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return nil, []error{fmt.Errorf("%s must hold flags under %s: %w", name, strings.Join(processes, ", "), err)}
	}
	var errs []error
	for _, section := range slices.Sorted(maps.Keys(all)) {
		if known[section] == nil {
			errs = append(errs, fmt.Errorf("%s: there is no process %q%s; there are %s", name, section, meant(section, processes), strings.Join(processes, ", ")))
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(all[section])) {
			if !slices.Contains(known[section], key) {
				errs = append(errs, fmt.Errorf("%s: %s has no setting %q%s: see modeldock %s --help", name, section, key, meant(key, known[section]), section))
			}
		}
	}
	return all[process], errs
}

// flagText is a value as it would be written after its flag.
func flagText(v any) (string, error) {
	switch v := v.(type) {
	case []any:
		parts := make([]string, len(v))
		for i, each := range v {
			text, err := flagText(each)
			if err != nil {
				return "", err
			}
			parts[i] = text
		}
		return strings.Join(parts, ","), nil
	case string, bool:
		return fmt.Sprint(v), nil
	case float64:
		return strings.TrimSuffix(fmt.Sprintf("%f", v), ".000000"), nil
	}
	return "", fmt.Errorf("%v is neither text, number, boolean nor a list of them", v)
}

func (c *cli) configCommand() *cobra.Command {
	printing := group("print", "Show the settings that a process would start with, as a file for --config")
	for _, process := range c.processes() {
		process.Short = "The settings of modeldock " + process.Name()
		process.RunE = func(cmd *cobra.Command, _ []string) error { return c.printConfig(cmd) }
		printing.AddCommand(process)
	}
	cmd := group("config", "Settings of the processes")
	cmd.AddCommand(printing)
	return cmd
}

// printConfig shows every setting. Secrets are never among them; whether the
// environment has one is said beside, not what it is.
func (c *cli) printConfig(cmd *cobra.Command) error {
	settings := map[string]any{}
	for _, name := range settingsOf(cmd) {
		settings[name] = settingOf(cmd.Flags().Lookup(name))
	}
	text, err := yaml.Marshal(map[string]any{cmd.Name(): settings})
	if err != nil {
		return failed(err)
	}
	_, _ = c.out.Write(text)
	for _, variable := range []string{app.DSNVariable, app.GatewayTokenVariable, app.RedisVariable} {
		if os.Getenv(variable) != "" {
			_, _ = fmt.Fprintf(c.out, "# %s: *** (from the environment)\n", variable)
		}
	}
	return nil
}

func settingOf(f *pflag.Flag) any {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return append([]string{}, list.GetSlice()...) // none are a list, too
	}
	switch f.Value.Type() {
	case "bool":
		return f.Value.String() == "true"
	case "int", "int64":
		var n int64
		if _, err := fmt.Sscan(f.Value.String(), &n); err == nil {
			return n
		}
	}
	return f.Value.String()
}
