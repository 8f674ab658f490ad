package dra

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"modeldock.io/internal/device"
)

// PrepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *plugin) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		if err != nil {
			d.refused.Inc()
			d.cfg.Logger.Error("a claim is not prepared", "claim", claim.Namespace+"/"+claim.Name, "error", err)
		}
		out[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return out, nil
}

// prepare may be asked more than once for the same claim, also after the
// container runtime has lost its files.
func (d *plugin) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	// 1. What was decided.
	p, err := d.decided(claim)
	if err != nil {
		return nil, err
	}
	// 2. It is there, and nobody else's.
	if err := d.room(p); err != nil {
		return nil, err
	}
	// 3. Written down, then given.
	if err := d.kept.put(p); err != nil {
		return nil, err
	}
	if err := d.inject.write(p); err != nil {
		return nil, err
	}
	ids := d.inject.ids(p)
	devices := make([]kubeletplugin.Device, 0, len(p.Shares))
	for _, s := range p.Shares {
		devices = append(devices, kubeletplugin.Device{Requests: []string{p.Request}, PoolName: d.cfg.Node, DeviceName: s.Device, ShareID: s.ShareID})
	}
	devices[0].CDIDeviceIDs = ids // all cards of the claim are in one
	return devices, nil
}

// decided reads the claim's status, which is the decision.
func (d *plugin) decided(claim *resourceapi.ResourceClaim) (prepared, error) {
	p := prepared{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	if claim.Status.Allocation == nil {
		return p, errors.New("the claim is not allocated")
	}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if r.Driver != Driver {
			continue
		}
		if r.Pool != d.cfg.Node {
			return p, fmt.Errorf("the claim has the device %s of %s, and this is %s", r.Device, r.Pool, d.cfg.Node)
		}
		if p.Request != "" && p.Request != r.Request {
			return p, fmt.Errorf("the claim asks twice (%s and %s), and a container could see the cards of one only: ask once with a count, or make two claims for two containers", p.Request, r.Request)
		}
		p.Request = r.Request
		s := share{Device: r.Device, ShareID: r.ShareID}
		if at := slices.IndexFunc(d.cards, func(c device.Card) bool { return deviceName(c.UUID) == r.Device }); at >= 0 {
			s.Card, s.MiB = d.cards[at].UUID, usable(d.cards[at], d.cfg.Reserve)
		} else if s, at = d.before(claim.UID, r.Device); at < 0 {
			return p, fmt.Errorf("the claim has the card %s, which this node does not have (any more): delete the Pod, so that another one is chosen", r.Device)
		}
		if consumed, ok := r.ConsumedCapacity[memory]; ok {
			s.MiB = (consumed.Value() + mebibyte - 1) / mebibyte
		}
		p.Shares = append(p.Shares, s)
	}
	if len(p.Shares) == 0 {
		return p, fmt.Errorf("the claim has no device of %s", Driver)
	}
	return p, nil
}

// before is a share that was prepared earlier, of a card that is gone: its Pod
// may go on as long as it can.
func (d *plugin) before(claim types.UID, name string) (share, int) {
	shares := d.kept.claims[claim].Shares
	at := slices.IndexFunc(shares, func(s share) bool { return s.Device == name })
	if at < 0 {
		return share{}, -1
	}
	return shares[at], at
}

// room is the last line of defence against giving the same memory twice,
// whatever the allocator did.
func (d *plugin) room(p prepared) error {
	for _, s := range p.Shares {
		at := slices.IndexFunc(d.cards, func(c device.Card) bool { return c.UUID == s.Card })
		if at < 0 {
			continue // gone, see before
		}
		whole, taken, holders := usable(d.cards[at], d.cfg.Reserve), s.MiB, 0
		for uid, other := range d.kept.claims {
			if uid == p.UID {
				continue
			}
			for _, theirs := range other.Shares {
				if theirs.Card == s.Card {
					taken += theirs.MiB
					holders++
				}
			}
		}
		if taken > whole {
			return fmt.Errorf("card %s has %d MiB for models, of which %d other claims hold %d: the %d MiB of this one are not there; they are given when an earlier Pod has ended", s.Card, whole, holders, taken-s.MiB, s.MiB)
		}
	}
	return nil
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *plugin) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		out[claim.UID] = d.forget(claim.UID)
	}
	return out, nil
}

// forget takes the file away first: while it is written down that there is
// one, it is found again.
func (d *plugin) forget(uid types.UID) error {
	if err := d.inject.remove(uid); err != nil {
		return err
	}
	return d.kept.remove(uid)
}

// prune forgets claims that ended while no agent ran and that the kubelet does
// not know either, as after a node was set up anew. It is done at the start
// alone: later the kubelet says when the last container is gone, which a
// claim that was deleted by force does not prove.
func (d *plugin) prune(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, p := range d.kept.claims {
		claim, err := d.cfg.Client.ResourceV1().ResourceClaims(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if err == nil && claim.UID == uid {
			continue
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("look for the claim %s/%s: %w", p.Namespace, p.Name, err)
		}
		if err := d.forget(uid); err != nil {
			return err
		}
		d.cfg.Logger.Info("a claim that is gone is forgotten", "claim", p.Namespace+"/"+p.Name)
	}
	return nil
}
