package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"loadstone/block/atomicfile"
	"loadstone/lab/importer"
)

// importFlags are those of loadstone import.
type importFlags struct {
	importer.Options
	output    string
	variables []string
}

func (a *app) importLoadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "import",
		GroupID: "lab",
		Short:   "Turn a HAR, an OpenAPI description or a Postman collection into a load file",
		Long: `Turn a HAR, an OpenAPI description or a Postman collection into a load file.

What a load cannot make, or should not have, is left out: requests to other hosts, what
a browser had in its cache, and credentials (Authorization, cookies, API keys, passwords),
unless --secrets. Each omission is a comment at the head of the file.`,
		Example: `  # what a browser did, saved from its network panel
  loadstone import har shop.har --output shop.yaml
  loadstone load shop.yaml --target http://127.0.0.1:8080

  # every operation that reads
  loadstone import openapi openapi.json --target http://127.0.0.1:8080 --output api.yaml

  # a Postman collection, exported as Collection v2.1
  loadstone import postman shop.postman_collection.json --var baseUrl=http://127.0.0.1:8080`,
	}
	cmd.AddCommand(
		a.importFrom("har FILE", "The requests to one host, in the order and at the pace in which a browser made them", func(path string, o importer.Options) (*importer.Load, []byte, error) {
			return fromFile(path, o, importer.HAR)
		}),
		a.importFrom("openapi FILE", "The operations of an OpenAPI 3 description, one drawn for each request", importer.OpenAPI),
		a.importFrom("postman FILE", "The requests of a Postman collection (format 2.1), in turn", func(path string, o importer.Options) (*importer.Load, []byte, error) {
			return fromFile(path, o, importer.Postman)
		}),
	)
	return cmd
}

// maxImport bounds what is read of a file: a HAR has the answers in it.
const maxImport = 512 << 20

// fromFile opens a file for a reader.
func fromFile(path string, o importer.Options, read func(string, io.Reader, importer.Options) (*importer.Load, []byte, error)) (*importer.Load, []byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	return read(path, io.LimitReader(f, maxImport), o)
}

// importFrom is the command for one format.
func (a *app) importFrom(use, short string, read func(path string, o importer.Options) (*importer.Load, []byte, error)) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f.Variables = map[string]string{}
			for _, text := range f.variables {
				name, value, ok := strings.Cut(text, "=")
				if !ok || name == "" {
					return usagef("--var %q gives no variable a value; write --var NAME=VALUE", text)
				}
				f.Variables[name] = value
			}
			made, data, err := read(args[0], f.Options)
			if err != nil {
				return usageError{err}
			}
			for _, note := range made.Notes {
				fmt.Fprintln(a.Stderr, "note:", note)
			}
			if f.output == "" {
				_, err = a.Stdout.Write(data)
				return err
			}
			return writeImported(f.output, data)
		},
	}
	fl := cmd.Flags()
	fl.StringVarP(&f.output, "output", "o", "", "file to write (default: standard output)")
	fl.StringVar(&f.Target, "target", "", "base URL to load, in place of the one that is imported")
	switch cmd.Name() {
	case "openapi":
		fl.BoolVar(&f.Writing, "writing", false, "have the operations too that change something (POST, PUT, PATCH, DELETE)")
	case "postman":
		fl.StringArrayVar(&f.variables, "var", nil, "NAME=VALUE: the value of a variable of the collection")
		fallthrough
	default:
		fl.BoolVar(&f.Secrets, "secrets", false, "write credentials (Authorization, cookies, passwords) into the file as they are")
	}
	return cmd
}

// writeImported writes a file such that it is there whole, or not at all.
func writeImported(path string, data []byte) error {
	file, err := atomicfile.CreateShared(path)
	if err != nil {
		return usageError{err}
	}
	if _, err := file.File().Write(data); err != nil {
		_ = file.Discard() // what went wrong is known
		return err
	}
	return file.Commit()
}
