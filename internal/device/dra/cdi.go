package dra

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// Variables that tell a container its cards.
const (
	cardVariable   = "MODELDOCK_CARD"
	nvidiaVariable = "NVIDIA_VISIBLE_DEVICES"
)

const (
	cdiKind    = "modeldock.io/card"
	cdiVersion = "0.6.0" // that all supported container runtimes know
	cdiPrefix  = "modeldock.io-card-"
)

// injector writes the files by which a container runtime gives a container
// what it may see: one per claim, named after its UID, which is never used
// again. These variables override those of the Pod and of its image.
type injector struct {
	dir string
	// nvidia is the kind under which NVIDIA's toolkit describes real cards by
	// uuid, "nvidia.com/gpu"; empty: its runtime reads the variable instead.
	nvidia string
}

func (i injector) path(claim types.UID) string {
	return filepath.Join(i.dir, cdiPrefix+string(claim)+".json")
}

// ids are the devices that the container runtime is told to inject.
func (i injector) ids(p prepared) []string {
	ids := []string{cdiKind + "=" + string(p.UID)}
	if i.nvidia == "" {
		return ids
	}
	for _, card := range p.cards() {
		if !strings.HasPrefix(card, "SIM-") {
			ids = append(ids, i.nvidia+"="+card)
		}
	}
	return ids
}

func (i injector) write(p prepared) error {
	list := strings.Join(p.cards(), ",")
	env := []string{cardVariable + "=" + list}
	if i.nvidia == "" {
		env = append(env, nvidiaVariable+"="+list)
	}
	text, err := json.Marshal(cdi.Spec{
		Version: cdiVersion, Kind: cdiKind,
		Devices: []cdi.Device{{Name: string(p.UID), ContainerEdits: cdi.ContainerEdits{Env: env}}},
	})
	if err == nil {
		err = writeFile(i.path(p.UID), text)
	}
	if err != nil {
		return fmt.Errorf("describe the cards of the claim %s/%s to the container runtime: %w", p.Namespace, p.Name, err)
	}
	return nil
}

func (i injector) remove(claim types.UID) error {
	if err := os.Remove(i.path(claim)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("take the cards of a claim from the container runtime: %w", err)
	}
	return nil
}

// agree makes the folder say what is prepared and nothing else: it may have
// been lost at a reboot, or written by an agent that died just then.
func (i injector) agree(claims map[types.UID]prepared) error {
	if err := os.MkdirAll(i.dir, 0o755); err != nil { //nolint:gosec // the container runtime's folder, as it makes it itself
		return fmt.Errorf("make the folder of the container runtime's devices: %w", err)
	}
	found, err := filepath.Glob(filepath.Join(i.dir, cdiPrefix+"*.json"))
	if err != nil {
		return fmt.Errorf("look for devices of earlier claims: %w", err)
	}
	for _, path := range found {
		uid := types.UID(strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), cdiPrefix), ".json"))
		if _, wanted := claims[uid]; !wanted {
			if err := i.remove(uid); err != nil {
				return err
			}
		}
	}
	for _, p := range claims {
		if err := i.write(p); err != nil {
			return err
		}
	}
	return nil
}
