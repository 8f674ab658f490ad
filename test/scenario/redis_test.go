//go:build redis

package scenario_test

import (
	"testing"

	"modeldock.io/test/onemachine"
	"modeldock.io/test/redisserver"
	"modeldock.io/test/scenario"
)

// Limits and cached answers are the same with a Redis behind them, and when
// it dies under the platform traffic goes on.
func TestRedisBehindOneMachine(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"LimitsHold", "AnswersAreCached"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := redisserver.Start(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Stop() })
			h := onemachine.New(t, "--redis", s.Addr)
			scenario.Stories()[name](t, h)
			s.Kill()
			a, admin := scenario.As(t, h, "team-a"), scenario.As(t, h, "admin")
			admin.Must(200, "PUT", "/tenants/team-a/limits", `{"concurrency":5,"tokensPerMinute":100000}`)
			for range 20 {
				a.MustChat("talk")
			}
			if err := s.Launch(t.Context()); err != nil {
				t.Fatal(err)
			}
			for range 20 {
				a.MustChat("talk")
			}
		})
	}
}
