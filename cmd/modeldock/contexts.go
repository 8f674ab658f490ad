package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// contexts is the saved ~/.config/modeldock/config.yaml.
type contexts struct {
	Current  string                  `json:"current"`
	Contexts map[string]savedContext `json:"contexts"`
}

type savedContext struct {
	URL     string `json:"url"`
	KeyFile string `json:"keyFile"`
	Tenant  string `json:"tenant,omitempty"` // whose key plain verbs use
}

func contextsPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the configuration directory: %w", err)
	}
	return filepath.Join(dir, "modeldock", "config.yaml"), nil
}

func loadContexts() (contexts, error) {
	var c contexts
	path, err := contextsPath()
	if err != nil {
		return c, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("read the saved contexts: %w", err)
	}
	if err := yaml.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("read %s: %w", path, err)
	}
	return c, nil
}

// saveContext stores ctx under name and makes it the current one.
func saveContext(name string, ctx savedContext) error {
	all, err := loadContexts()
	if err != nil {
		return err
	}
	if all.Contexts == nil {
		all.Contexts = map[string]savedContext{}
	}
	all.Current, all.Contexts[name] = name, ctx
	data, err := yaml.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode the saved contexts: %w", err)
	}
	path, err := contextsPath()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("save the context: %w", err)
	}
	// A command that reads at this moment sees the old file or the new one.
	tmp, err := os.CreateTemp(filepath.Dir(path), ".config-*") // 0600
	if err != nil {
		return fmt.Errorf("save the context: %w", err)
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
		return fmt.Errorf("save the context: %w", err)
	}
	return nil
}

func (c *cli) savedContext() (savedContext, error) {
	all, err := loadContexts()
	if err != nil {
		return savedContext{}, failed(err)
	}
	name := first(c.opts.context, all.Current)
	saved, ok := all.Contexts[name]
	if !ok && c.opts.context != "" {
		return saved, usage("no context %q is saved", c.opts.context)
	}
	return saved, nil
}
