// Package monitoring holds the test that runs promtool on the alert rules.
package monitoring
