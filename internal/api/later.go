package api

import (
	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
)

// The operations below have their place in the contract and are built by
// later work; until then they answer 501 in the one error shape.

// GetScaling will answer scaling decisions.
func (s handlers) GetScaling(c *gin.Context, _ openapi.ID, _ openapi.GetScalingParams) {
	s.fail(c, notBuilt("", "scaling"))
}

// Simulate will replay traces.
func (s handlers) Simulate(c *gin.Context) { s.fail(c, notBuilt("", "the simulator")) }
