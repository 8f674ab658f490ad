package nodeobject

import (
	"regexp"
	"strconv"
	"strings"

	"modeldock.io/internal/device"
	"modeldock.io/internal/placement/nodecards"
)

// Labels of a node with cards.
const (
	LabelCount     = "modeldock.io/card-count"
	LabelModel     = "modeldock.io/card-model"      // absent where several models are mixed
	LabelMemory    = "modeldock.io/card-memory-mib" // of the smallest
	LabelSimulated = "modeldock.io/cards-simulated"
)

func labels() []string { return []string{LabelCount, LabelModel, LabelMemory, LabelSimulated} }

// description is what the Node object says of its cards.
type description struct {
	annotations map[string]string
	labels      map[string]string
}

func describe(cards []device.Card) (description, error) {
	listed := make([]nodecards.Card, 0, len(cards))
	for _, c := range cards {
		listed = append(listed, nodecards.Card{
			UUID: c.UUID, Index: c.Index, Model: c.Model, TotalMiB: c.Total, Healthy: c.Healthy, Isolation: nodecards.IsolationNone, Simulated: c.Simulated,
		})
	}
	text, err := nodecards.Encode(listed)
	if err != nil {
		return description{}, err
	}
	d := description{annotations: map[string]string{nodecards.Annotation: text}, labels: map[string]string{LabelCount: strconv.Itoa(len(cards))}}
	if len(cards) == 0 {
		return d, nil
	}
	smallest, model := cards[0].Total, cards[0].Model
	for _, c := range cards {
		smallest = min(smallest, c.Total)
		if c.Model != model {
			model = ""
		}
	}
	d.labels[LabelMemory] = strconv.FormatInt(smallest, 10)
	d.labels[LabelSimulated] = strconv.FormatBool(cards[0].Simulated)
	if value := labelValue(model); value != "" {
		d.labels[LabelModel] = value
	}
	return d, nil
}

const maxLabel = 63

var notInLabels = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// labelValue makes a name fit a label: "NVIDIA A100-SXM4-40GB" becomes
// "NVIDIA-A100-SXM4-40GB".
func labelValue(name string) string {
	value := notInLabels.ReplaceAllString(name, "-")
	return strings.Trim(value[:min(len(value), maxLabel)], "._-")
}
