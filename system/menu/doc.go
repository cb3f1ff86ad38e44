// Package menu is the domain of the restaurant menus system: what a restaurant serves, the
// body that answers a look-up, and the contracts that stores keep.
//
// It holds no storage and no HTTP. Its words:
//
//   - a Menu is what one restaurant serves: dishes, or a link to a menu elsewhere
//   - a Page is a menu's finished answer, with the Tag and the Version of its body
//   - a Store finds pages by id; a Database also changes them, one version after the other,
//     and a Desk knows what they were, who changed them, and what is drafted
//   - a Source yields every menu of a data set once; the Generator and imported files are
//     sources
//
// Adapters live below this package, one per technology, and do not know each other. The
// caller owns what it opens and closes it.
package menu
