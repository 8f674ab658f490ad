package api

import (
	"github.com/gin-gonic/gin"
)

// The operations below have their place in the contract and are built by
// later work; until then they answer 501 in the one error shape.

// Simulate will replay traces.
func (s handlers) Simulate(c *gin.Context) { s.fail(c, notBuilt("", "the simulator")) }
