package rpc

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// sources are .proto files that were read. Each is read once and has one name, its path,
// whatever those that import it call it: two of one name in different directories are two, and
// one that is called by its whole path here and by its last part there is the same. To the
// compiler a name is a file, and the second time it would find everything in it declared already.
type sources struct {
	given []string          // the directories of those that were asked for
	names map[string]string // by where a file really is
	read  map[string]parser.Result
}

// add reads a file and all that it imports, and returns its name.
func (s *sources) add(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	same, err := filepath.EvalSymlinks(path)
	if err == nil {
		same, err = filepath.Abs(same)
	}
	if err != nil {
		return "", err
	}
	if name, ok := s.names[same]; ok { // or is being read, if the imports go round in a circle
		return name, nil
	}
	s.names[same] = path
	handler := reporter.NewHandler(nil) // which gives up at the first mistake
	tree, err := parser.Parse(path, bytes.NewReader(text), handler)
	if err != nil {
		return "", err
	}
	parsed, err := parser.ResultFromAST(tree, true, handler)
	if err != nil {
		return "", err
	}
	imports := parsed.FileDescriptorProto().GetDependency()
	for i, name := range imports {
		if found := s.find(name, filepath.Dir(path)); found != "" {
			if imports[i], err = s.add(found); err != nil {
				return "", err
			}
		}
	}
	s.read[path] = parsed
	return path, nil
}

// find is the path of what a file in a directory imports: below that directory or one above,
// since most are laid out by their packages, or below those of the files that were asked for.
// It is empty for what comes with the compiler, and for what there is not.
func (s *sources) find(name, from string) string {
	if _, err := standard.FindFileByPath(name); err == nil {
		return ""
	}
	for _, dir := range append([]string{from}, s.given...) {
		for {
			path := filepath.Join(dir, name)
			if info, err := os.Stat(path); err == nil && !info.IsDir() {
				return path
			}
			above := filepath.Dir(dir)
			if above == dir {
				break
			}
			dir = above
		}
	}
	return ""
}

// standard has the well-known types.
var standard = protocompile.WithStandardImports(protocompile.ResolverFunc(func(string) (protocompile.SearchResult, error) {
	return protocompile.SearchResult{}, protoregistry.NotFound
}))

// Sources are the paths of .proto files and of all that they import, but what is there anyway.
func Sources(paths []string) ([]string, error) {
	s, _, err := readSources(paths)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(s.read)), nil
}

// readSources reads .proto files and all that they import, and returns the names of the former.
func readSources(paths []string) (s *sources, names []string, err error) {
	s = &sources{names: map[string]string{}, read: map[string]parser.Result{}}
	for _, path := range paths {
		s.given = append(s.given, filepath.Dir(path))
	}
	for _, path := range paths {
		name, err := s.add(path)
		if err != nil {
			return nil, nil, err
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return s, names, nil
}

// compile reads .proto files and compiles them.
func compile(paths []string) (linker.Files, error) {
	s, names, err := readSources(paths)
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{Resolver: protocompile.CompositeResolver{s, standard}}
	return compiler.Compile(context.Background(), names...) // it waits for nobody
}

// FindFileByPath is for the compiler.
func (s *sources) FindFileByPath(name string) (protocompile.SearchResult, error) {
	if parsed := s.read[name]; parsed != nil {
		return protocompile.SearchResult{ParseResult: parsed}, nil
	}
	return protocompile.SearchResult{}, protoregistry.NotFound
}
