// Command image puts one static program into a container image that holds
// nothing else but a list of what the program is made of. It needs no daemon,
// and the same program gives the same bytes on every machine.
//
//	image --binary bin/modeldock --name modeldock:0.1.0 --out bin/images
//
// writes OUT/modeldock (an OCI layout) and OUT/modeldock.tar (for docker load,
// ctr images import and kind load), and prints the image's digest.
//
//	image --binary bin/modeldock --version 0.1.0 --components sbom.cdx.json
//
// writes the list alone, for a program that is given away as it is.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	var o Options
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&o.Binary, "binary", "", "static program that the image holds and starts")
	flags.StringVar(&o.Name, "name", "", "name and tag of the image")
	flags.StringVar(&o.Version, "version", "", "version label; default: the tag")
	flags.StringVar(&o.Revision, "revision", "", "commit label; default: what the program was built from")
	list := flags.String("components", "", "write only the list of what the program is made of, to this file")
	dir := flags.String("out", "bin/images", "folder of what is written")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *list != "" && o.Binary != "" {
		return writeComponents(o, *list)
	}
	if o.Binary == "" || o.Name == "" {
		return errors.New("--binary and --name are needed")
	}
	image, err := Build(o)
	if err != nil {
		return err
	}
	digest, err := image.Write(*dir)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s %s\n", o.Name, digest)
	return err
}

func writeComponents(o Options, to string) error {
	made, err := madeFrom(o.Binary)
	if err != nil {
		return err
	}
	text, err := made.components(o.Version)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644) //nolint:gosec // it is there to be read
}
