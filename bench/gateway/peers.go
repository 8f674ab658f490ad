package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// peer is another program that is measured beside ours, where it is installed.
type peer struct {
	name  string
	start func(ctx context.Context, engine string) (*side, error)
}

// errAbsent means that a peer is not installed; the text says what to do.
var errAbsent = errors.New("is not installed")

func peers() []peer {
	return []peer{{"nginx", startNginx}, {"Portkey", startPortkey}}
}

// nginxConfiguration is one process that streams both ways and keeps its
// connections; %[1]s is its folder, %[2]s and %[3]s are its address and the
// engine's.
const nginxConfiguration = `
daemon off; master_process off; worker_rlimit_nofile 20000;
pid %[1]s/pid; error_log stderr crit;
events { worker_connections 16384; }
http {
  access_log off; tcp_nodelay on; keepalive_requests 100000000; client_max_body_size 64m;
  client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy; fastcgi_temp_path %[1]s/fastcgi;
  uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;
  upstream engine { server %[3]s; keepalive 512; keepalive_requests 100000000; }
  server {
    listen %[2]s backlog=8192;
    location / {
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffering off; proxy_request_buffering off; proxy_read_timeout 10m;
    }
  }
}
`

func startNginx(ctx context.Context, engine string) (*side, error) {
	program, err := exec.LookPath("nginx")
	if err != nil {
		program = "/usr/sbin/nginx" // where it is on Debian, and not in everybody's PATH
		if _, err := os.Stat(program); err != nil {
			return nil, fmt.Errorf("nginx %w: apt-get install nginx-light", errAbsent)
		}
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-nginx-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for nginx: %w", err)
	}
	done := func() { _ = os.RemoveAll(dir) }
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, nginxConfiguration, dir, address, engine), 0o600); err != nil {
		done()
		return nil, fmt.Errorf("configure nginx: %w", err)
	}
	return begin(ctx, &side{
		name: "nginx", address: address, command: child(ctx, program, "-p", dir, "-c", file), share: 1, done: done,
	})
}

// portkeyFolder is where scripts/bench.sh installs it.
const portkeyFolder = "bench/gateway/portkey"

func startPortkey(ctx context.Context, engine string) (*side, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("node %w: https://nodejs.org", errAbsent)
	}
	program := filepath.Join(portkeyFolder, "node_modules/@portkey-ai/gateway/build/start-server.js")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("@portkey-ai/gateway %w: npm ci in %s", errAbsent, portkeyFolder)
	}
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("choose a port for Portkey: %w", err)
	}
	command := child(ctx, node, program, "--headless", "--port="+port)
	command.Stderr = nil // it tells of each caller who leaves
	return begin(ctx, &side{
		name: "Portkey", address: address, command: command, share: 10,
		header: "x-portkey-provider: openai\r\nx-portkey-custom-host: http://" + engine + "/v1\r\n" +
			"x-portkey-forward-headers: " + eventsHeader + "," + bunchHeader + "," + paceHeader + "\r\n",
	})
}

// begin starts a program and waits until it accepts connections.
func begin(ctx context.Context, s *side) (*side, error) {
	if err := s.command.Start(); err != nil {
		s.command = nil
		s.stop()
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	pin(s.command.Process.Pid, serverCore)
	deadline := time.Now().Add(30 * time.Second)
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.address)
		if err == nil {
			_ = conn.Close()
			return s, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			s.stop()
			return nil, fmt.Errorf("%s does not listen on %s after 30 s: %w", s.name, s.address, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// freeAddress is one that a program which cannot choose by itself may use.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String(), nil
}
