package delivery

import "context"

// Inspecting is a target that can show more of an object than a status: what
// was made of it on the way to its replicas. It is asked when a person wants
// to know, and may cost some calls.
type Inspecting interface {
	Inspect(ctx context.Context, st Status) (Inspection, error)
}

// Comparing is a target whose objects others can change: it says what of an
// object is not as it was applied, or nothing. It must not cost a call.
type Comparing interface {
	Differs(ctx context.Context, d Desired) (string, error)
}

// Inspection is what was found of one object.
type Inspection struct {
	Children []Child
	// Engines is what the engines of ready replicas say that they serve, by the
	// replica's UID. One that does not answer at once is left out.
	Engines map[string]string
}

// Child is an object between a reservation's and its replicas: on a cluster a
// Deployment or a ReplicaSet.
type Child struct {
	Kind     string
	Name     string
	UID      string
	OwnerUID string // of the object that it was made for
	Revision string // counts what was rolled out
	Seen     bool   // its controller has acted on its latest change
	Wanted   int    // replicas
	There    int    // of them
	Ready    int
}
