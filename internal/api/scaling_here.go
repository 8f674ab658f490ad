package api

import (
	"fmt"

	"modeldock.io/internal/modelspec"
)

// checkScaling refuses what nobody here would do: the settings would be kept and
// mean nothing.
func (s *Server) checkScaling(settings *modelspec.Scaling) error {
	switch {
	case settings == nil:
		return nil
	case s.NoSleep != "" && settings.Asleep != 0:
		return &modelspec.FieldError{
			Field:   "model.scaling.asleep",
			Message: fmt.Sprintf("model.scaling.asleep is %d, but no replica stays asleep here: %s; leave it out", settings.Asleep, s.NoSleep),
		}
	case s.NoAutoscaler != "" && (settings.Actuator == modelspec.ActuatorHPA || settings.Actuator == modelspec.ActuatorKEDA):
		return &modelspec.FieldError{
			Field:   "model.scaling.actuator",
			Message: fmt.Sprintf("model.scaling.actuator is %q, but nobody would scale the model: %s; choose direct, or none to scale it yourself", settings.Actuator, s.NoAutoscaler),
		}
	}
	return nil
}
