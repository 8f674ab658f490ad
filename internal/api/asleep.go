package api

import (
	"fmt"

	"modeldock.io/internal/modelspec"
)

// checkAsleep refuses engines that sleep where none can: the settings would be
// kept and mean nothing.
func (s *Server) checkAsleep(settings *modelspec.Scaling) error {
	if s.NoSleep == "" || settings == nil || settings.Asleep == 0 {
		return nil
	}
	return &modelspec.FieldError{
		Field:   "model.scaling.asleep",
		Message: fmt.Sprintf("model.scaling.asleep is %d, but no replica stays asleep here: %s; leave it out", settings.Asleep, s.NoSleep),
	}
}
