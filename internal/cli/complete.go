package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"loadstone/lab/archive"
	"loadstone/lab/experiment"
)

// completeRuns completes the first most arguments with runs, the newest first,
// and with files: a run may lie elsewhere.
func completeRuns(most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, err := archive.Names(cmd.Flag("runs").Value.String())
		if err != nil || len(names) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		slices.Reverse(names)
		return append([]cobra.Completion{"latest"}, names...), cobra.ShellCompDirectiveDefault | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeExperiments completes the one argument with YAML files.
func completeExperiments(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []cobra.Completion{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
}

// completeVariants completes a list of the variants of the experiment that is the
// argument.
func completeVariants(_ *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	exp, err := experiment.Load(args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	before := toComplete[:strings.LastIndexByte(toComplete, ',')+1]
	written := strings.Split(before, ",")
	var out []cobra.Completion
	for _, name := range exp.VariantNames() {
		if !slices.Contains(written, name) {
			out = append(out, before+name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeRunVariants completes a variant of the run that is the argument.
func completeRunVariants(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	dir, err := archive.Find(cmd.Flag("runs").Value.String(), args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	r, err := archive.Open(dir)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []cobra.Completion
	for i := range r.Trials {
		if v := r.Trials[i].Variant; !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completing has the values of a flag completed by f.
func completing(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag is not defined: a mistake in this program
	}
}
