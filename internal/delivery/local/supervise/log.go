package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	defaultLogBytes = 8 << 20
	keepLogs        = 2 // rotated files beside the current one
	tailLines       = 20
	tailLineBytes   = 500
	notePrefix      = "--- modeldock: "
)

// logFile copies the model's output into a file of bounded size and remembers
// its last lines.
type logFile struct {
	mu      sync.Mutex
	path    string
	limit   int64
	size    int64
	file    *os.File
	tail    []string
	drained chan struct{}
}

func openLog(path string, limit int64) (*logFile, error) {
	if limit <= 0 {
		limit = defaultLogBytes
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make the log directory: %w", err)
	}
	l := &logFile{path: path, limit: limit, drained: make(chan struct{})}
	return l, l.open()
}

// Note writes a line of ModelDock's own into a model's log, while no
// supervisor does: why the model could not even be started.
func Note(path, text string) error {
	l, err := openLog(path, 0)
	if err != nil {
		return err
	}
	l.Note(text)
	l.Close()
	return nil
}

// NoteLine is such a line, as it stands in a log.
func NoteLine(at time.Time, text string) string {
	return notePrefix + at.UTC().Format(time.RFC3339) + " " + text + "\n"
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("open the log: %w", err)
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Pipe returns the write end for the model's stdout and stderr.
func (l *logFile) Pipe() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make the output pipe: %w", err)
	}
	go func() {
		defer close(l.drained)
		defer func() { _ = r.Close() }()
		l.copyLines(r)
	}()
	return w, nil
}

func (l *logFile) copyLines(r io.Reader) {
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			l.mu.Lock()
			l.write(line)
			l.remember(line)
			l.mu.Unlock()
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// Note writes a line of our own, which is not part of the model's output.
func (l *logFile) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write([]byte(NoteLine(time.Now(), text)))
}

// write never fails the model: a full disk costs log lines, not answers.
func (l *logFile) write(line []byte) {
	if l.size+int64(len(line)) > l.limit {
		l.rotate()
	}
	if l.file == nil {
		return
	}
	n, _ := l.file.Write(line)
	l.size += int64(n)
}

func (l *logFile) rotate() {
	_ = l.file.Close()
	l.file, l.size = nil, 0
	for i := keepLogs; i > 1; i-- {
		_ = os.Rename(fmt.Sprintf("%s.%d", l.path, i-1), fmt.Sprintf("%s.%d", l.path, i))
	}
	_ = os.Rename(l.path, l.path+".1")
	_ = l.open()
}

func (l *logFile) remember(line []byte) {
	text := strings.ToValidUTF8(string(bytes.TrimRight(line[:min(len(line), tailLineBytes)], "\r\n")), "�")
	if text == "" {
		return
	}
	l.tail = append(l.tail, text)
	if len(l.tail) > tailLines {
		l.tail = l.tail[1:]
	}
}

// Drain waits until what the model wrote is in the file.
func (l *logFile) Drain(atMost time.Duration) {
	select {
	case <-l.drained:
	case <-time.After(atMost):
	}
}

func (l *logFile) Tail() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.tail...)
}

func (l *logFile) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}
