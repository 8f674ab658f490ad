package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// serverBounds are what a caller must not be able to hold without end: a
// connection without a header, one without a request, memory for a header.
var serverBounds = []string{"ReadHeaderTimeout", "IdleTimeout", "MaxHeaderBytes"}

// unboundedServers are the HTTP servers of a file that lack one of them.
func unboundedServers(t *testing.T, name string, src any) (found []string, servers int) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, src, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		kind, ok := literal.Type.(*ast.SelectorExpr)
		if !ok || kind.Sel.Name != "Server" {
			return true
		}
		if pkg, ok := kind.X.(*ast.Ident); !ok || pkg.Name != "http" {
			return true
		}
		servers++
		var set []string
		for _, e := range literal.Elts {
			if pair, ok := e.(*ast.KeyValueExpr); ok {
				set = append(set, pair.Key.(*ast.Ident).Name)
			}
		}
		for _, bound := range serverBounds {
			if !slices.Contains(set, bound) {
				found = append(found, files.Position(literal.Pos()).String()+" has no "+bound)
			}
		}
		return true
	})
	return found, servers
}

// Every HTTP server of every process bounds what a caller can hold.
func TestEveryServerIsBounded(t *testing.T) {
	t.Parallel()
	if found, n := unboundedServers(t, "x.go", "package x\nvar s = http.Server{ReadHeaderTimeout: 1, MaxHeaderBytes: 1}"); len(found) != 1 || n != 1 {
		t.Fatalf("of an unbounded server is said %q", found)
	}
	servers := 0
	for _, folder := range []string{"internal", "cmd", "scheduler"} {
		err := filepath.WalkDir(filepath.Join(root(t), folder), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			found, n := unboundedServers(t, name, nil)
			servers += n
			for _, f := range found {
				t.Error(f)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if servers < 3 {
		t.Errorf("only %d servers were found", servers)
	}
}
