package wire

import (
	"strings"
	"testing"
)

// BenchmarkScanRequest: a long prompt, and one with an escape in every line.
func BenchmarkScanRequest(b *testing.B) {
	for name, content := range map[string]string{
		"plain": strings.Repeat("word ", 80_000), "lines": strings.Repeat(`a line of some forty characters, then\n`, 10_000),
	} {
		b.Run(name, func(b *testing.B) {
			body := []byte(`{"model":"a","messages":[{"role":"user","content":"` + content + `"}]}`)
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				if _, err := ScanRequest(body); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
