package api

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"modeldock.io/internal/api/openapi"
	"modeldock.io/internal/budget"
)

const (
	usageHours    = 24
	maxUsageHours = 31 * 24
	// usageEntries bounds the answer, whatever the journal holds.
	usageEntries = 2000
)

// GetUsage answers how the use of quotas and pools came to be.
func (s handlers) GetUsage(c *gin.Context, params openapi.GetUsageParams) {
	hours := value(params.Hours, usageHours)
	if hours < 1 || hours > maxUsageHours {
		s.fail(c, invalid("hours", "hours must be an integer from 1 to %d; got %d", maxUsageHours, hours))
		return
	}
	u, err := s.Ledger.Usage(c.Request.Context(), usageEntries)
	if err != nil {
		s.fail(c, err)
		return
	}
	tenants, pools, from := u.Courses(u.At.Add(-time.Duration(hours) * time.Hour))
	out := openapi.Usage{From: wire(from), To: wire(u.At), Tenants: []openapi.UsageCourse{}, Pools: []openapi.UsageCourse{}}
	for _, t := range tenants {
		if p := who(c); p.readsAll() || t.Name == p.Tenant {
			out.Tenants = append(out.Tenants, courseWire(t))
		}
	}
	for _, p := range pools {
		out.Pools = append(out.Pools, courseWire(p))
	}
	c.JSON(http.StatusOK, out)
}

func courseWire(c budget.Course) openapi.UsageCourse {
	out := openapi.UsageCourse{Name: c.Name, Cap: c.Cap, Used: c.Used, Points: []openapi.UsagePoint{}}
	for _, p := range c.Points {
		out.Points = append(out.Points, openapi.UsagePoint{At: wire(p.At), Used: p.Used})
	}
	return out
}
