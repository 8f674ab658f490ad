// Package console serves the web console: it embeds what Vite built from
// console/ and answers everything below /console/. It knows nothing of the
// three accounts; the page talks to the management API and the gateway itself.
package console

import (
	"embed"
	"io/fs"
)

// built holds static/app, which Vite writes, beside a committed .gitkeep, so
// that the package compiles without Node. "all:" because names of chunks may
// begin with an underscore.
//
//go:embed all:static
var built embed.FS

// builtFiles is the console as it was built; without a build it is a folder
// that does not exist.
func builtFiles() (fs.FS, error) { return fs.Sub(built, "static/app") }
